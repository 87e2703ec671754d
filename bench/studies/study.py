"""What the studies share: running ucft_sim, plots, tables. Not a program."""
import argparse
import json
import os
import pathlib
import subprocess
import sys

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    sys.exit("matplotlib is missing: ci/install bench/studies/packages.txt")

over_tcp = {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo"}
top = pathlib.Path(__file__).resolve().parent.parent.parent


def parser(text):
    arguments = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--bin", type=pathlib.Path, default=top / "build/bin", help="where ucft_sim is")
    arguments.add_argument("--out", type=pathlib.Path, default=top / "build/studies", help="where plots and tables go")
    return arguments


class Study:
    def __init__(self, name, arguments):
        self.name, self.bin, self.out = name, arguments.bin, arguments.out
        self.lines = []
        if not (self.bin / "ucft_sim").exists():
            sys.exit(f"{self.bin}/ucft_sim is not there: build first, or --bin")
        self.out.mkdir(parents=True, exist_ok=True)

    def sim(self, *words):
        (line,) = self.sims(*words)
        return line

    def sims(self, *words):
        """ucft_sim's lines of JSON. A run that finds a wrong result ends the study."""
        command = [str(self.bin / "ucft_sim"), *map(str, words), "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def perftest(self, ranks, *words, environment=None):
        """The first JSON line of ucft_perftest among so many ranks. environment: added to ours."""
        command = [str(self.bin / "ucft_run"), "-n", str(ranks), str(self.bin / "ucft_perftest"), *map(str, words), "--json"]
        done = subprocess.run(command, env=dict(os.environ, **(environment or {})), check=True, capture_output=True, text=True)
        return json.loads(done.stdout[done.stdout.index("{"):].splitlines()[0])

    def say(self, text=""):
        print(text, flush=True)
        self.lines.append(text)

    def table(self, head, rows):
        self.say("| " + " | ".join(head) + " |")
        self.say("|" + " --- |" * len(head))
        for row in rows:
            self.say("| " + " | ".join(str(cell) for cell in row) + " |")
        self.say()

    def plot(self, suffix, draw, x, y, log=("x",), title=""):
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
        if len(axes.get_legend_handles_labels()[0]) > 7:   # would hide curves
            axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
        else:
            axes.legend(fontsize=8)
        figure.tight_layout()
        for kind in ("png", "svg"):
            figure.savefig(self.out / f"{self.name}{suffix}.{kind}", dpi=120)
        plt.close(figure)

    def close(self):
        path = self.out / f"{self.name}.md"
        path.write_text("\n".join(self.lines) + "\n")
        print(f"{path}, and plots beside it")
