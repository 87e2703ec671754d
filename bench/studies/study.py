"""What the studies share: running ucft_sim, plots, tables. Not a program.

A table of a page of docs/ is a function with the table's name; `bench/studies/check` has it made and compares. So
what a table needs is run by its function (a command that has run is not run again), not beside it."""
import argparse
import functools
import json
import math
import os
import pathlib
import subprocess
import sys

over_tcp = {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo"}
top = pathlib.Path(__file__).resolve().parent.parent.parent


def parser(text):
    arguments = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--bin", type=pathlib.Path, default=top / "build/bin", help="where ucft_sim is")
    arguments.add_argument("--out", type=pathlib.Path, default=top / "build/studies", help="where plots and tables go")
    arguments.add_argument("--tables", metavar="NAME,..", help="only these, without plots")
    arguments.add_argument("--list", action="store_true", help="names the tables; runs nothing")
    return arguments


def pyplot():
    try:
        import matplotlib
    except ImportError:
        sys.exit("matplotlib is missing: ci/install bench/studies/packages.txt")
    matplotlib.use("Agg")
    import matplotlib.pyplot
    return matplotlib.pyplot


def show_all(axes):
    """Curves that coincide don't hide each other: a curve is wider than those above it with which it shares points."""
    curves = [line for line in axes.lines if not line.get_label().startswith("_")]
    points = [dict(zip(line.get_xdata(), line.get_ydata())) for line in curves]
    shared = lambda one, other: any(x in other and math.isclose(y, other[x], rel_tol=0.02) for x, y in one.items())
    for number, line in enumerate(curves):
        above = sum(shared(points[number], each) for each in points[number + 1:])
        if above:
            line.set_linewidth(1.5 + 2.5 * above)


class Study:
    def __init__(self, name, arguments):
        self.name, self.bin, self.out = name, arguments.bin, arguments.out
        self.only = set(arguments.tables.split(",")) if arguments.tables else None
        self.is_whole = not (self.only or arguments.list)
        self.lists = arguments.list
        self.lines = []
        self.made = set()
        if not (self.bin / "ucft_sim").exists():
            sys.exit(f"{self.bin}/ucft_sim is not there: build first, or --bin")
        self.out.mkdir(parents=True, exist_ok=True)

    def sim(self, *words):
        (line,) = self.sims(*words)
        return line

    def sims(self, *words):
        """ucft_sim's lines of JSON, the same list for the same command. A run that finds a wrong result ends the study."""
        return self.run((str(self.bin / "ucft_sim"), *map(str, words), "--json"))

    @functools.cache
    def run(self, command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def perftest(self, ranks, *words, environment=None):
        """The first JSON line of ucft_perftest among so many ranks. environment: added to ours."""
        command = [str(self.bin / "ucft_run"), "-n", str(ranks), str(self.bin / "ucft_perftest"), *map(str, words),
                   "--json"]
        done = subprocess.run(command, env=dict(os.environ, **(environment or {})), check=True, capture_output=True,
                              text=True)
        return json.loads(done.stdout[done.stdout.index("{"):].splitlines()[0])

    def say(self, text=""):
        """What is beside the tables."""
        if self.is_whole:
            print(text, flush=True)
            self.lines.append(text)

    def part(self, function):
        """Decorates what is neither a table nor a plot: runs it, unless only tables are asked for."""
        if self.is_whole:
            function()
        return function

    def table(self, function):
        """Decorates a table of the docs, by the function's name: runs it, unless others are asked for. Returns head
        and rows."""
        name = function.__name__
        self.made.add(name)
        if self.lists:
            print(name)
        elif self.is_whole or name in self.only:
            head, rows = function()
            lines = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in (head, ["---"] * len(head), *rows)]
            (self.out / f"{self.name}.{name}.table").write_text("\n".join(lines) + "\n")
            print("\n".join(lines) + "\n", flush=True)
            self.lines += [*lines, ""]
        return function

    def plot(self, suffix, draw, x, y, log=("x",), title=""):
        if not self.is_whole:
            return
        plt = pyplot()
        figure, axes = plt.subplots(figsize=(8, 5))
        draw(axes)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.set_title(title)
        if "x" in log:
            axes.set_xscale("log", base=2)
        if "y" in log:
            axes.set_yscale("log")
        axes.grid(True, alpha=0.3)
        show_all(axes)
        if len(axes.get_legend_handles_labels()[0]) > 7:   # would hide curves
            axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
        else:
            axes.legend(fontsize=8)
        figure.tight_layout()
        for kind in ("png", "svg"):
            figure.savefig(self.out / f"{self.name}{suffix}.{kind}", dpi=120)
        plt.close(figure)

    def close(self):
        unknown = (self.only or set()) - self.made
        if unknown:
            sys.exit(f"{self.name} has no table {', '.join(sorted(unknown))}; it has {', '.join(sorted(self.made))}")
        if not self.is_whole:
            return
        path = self.out / f"{self.name}.md"
        path.write_text("\n".join(self.lines) + "\n")
        print(f"{path}, and plots beside it")
