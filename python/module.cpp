// ucft._ucft: the C API as Python classes. Python's own part (exceptions, await, the end of a program) is in ucft/*.py.
#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/accumulator.hpp"
#include "python/job.hpp"
#include "python/result.hpp"

namespace ucft::python {
namespace {

using Optional = std::optional<double>;

constexpr const char* array_doc =
    "send: anything with a buffer (a NumPy array, array.array, bytearray), C-contiguous; a number or a list becomes a "
    "NumPy array.\n"
    "recv: a writable one of the same type and length; None: a new array. send is recv, or IN_PLACE: the input is "
    "taken from recv.\n"
    "dtype: instead of what the buffer says of its elements, e.g. BFLOAT16 for an array of uint16.\n"
    "Both belong to the operation until it is complete.\n";

std::string doc(const char* first, bool arrays = true, const char* more = "") {
  return std::string(first) + "\n\n" + (arrays ? array_doc : "") + more;
}

ucft_context_params_t params_of(std::optional<std::int32_t> f, std::optional<bool> fence, Optional heartbeat_period_s,
                                Optional suspect_after_s, Optional startup_timeout_s,
                                std::optional<std::int32_t> spin) {
  const auto us_of = [](const char* name, Optional seconds) -> std::uint64_t {
    if (!seconds) return 0;
    if (!(*seconds > 0) || *seconds > 1e9) raise(UCFT_ERR_INVALID_PARAM, std::string(name) + ": seconds, above 0");
    return static_cast<std::uint64_t>(*seconds * 1e6);
  };
  ucft_context_params_t params = UCFT_CONTEXT_PARAMS_INIT;
  params.f = f.value_or(-1);
  params.fence = fence ? *fence : -1;
  params.heartbeat_period_us = us_of("heartbeat_period", heartbeat_period_s);
  params.suspect_after_us = us_of("suspect_after", suspect_after_s);
  params.startup_timeout_us = us_of("startup_timeout", startup_timeout_s);
  params.spin = spin.value_or(-1);
  return params;
}

// Options(f=2, ...): the fields by name.
template <class T>
std::shared_ptr<T> from_keywords(const py::kwargs& fields) {
  auto made = std::make_shared<T>();
  const py::object object = py::cast(made);
  for (const auto& [name, value] : fields) {
    if (!py::hasattr(object, name)) throw py::type_error("no option '" + std::string(py::str(name)) + "'");
    py::setattr(object, name, value);
  }
  return made;
}

void bind_enumerations(py::module_& m) {
  py::enum_<ucft_dtype_t>(m, "DType", "Types of elements (ucft.h: ucft_dtype_t).")
      .value("FLOAT", UCFT_FLOAT)
      .value("DOUBLE", UCFT_DOUBLE)
      .value("INT8", UCFT_INT8)
      .value("UINT8", UCFT_UINT8)
      .value("INT16", UCFT_INT16)
      .value("UINT16", UCFT_UINT16)
      .value("INT32", UCFT_INT32)
      .value("UINT32", UCFT_UINT32)
      .value("INT64", UCFT_INT64)
      .value("UINT64", UCFT_UINT64)
      .value("FLOAT16", UCFT_FLOAT16)
      .value("BFLOAT16", UCFT_BFLOAT16)
      .value("COMPLEX_FLOAT", UCFT_COMPLEX_FLOAT)
      .value("COMPLEX_DOUBLE", UCFT_COMPLEX_DOUBLE)
      .value("BOOL", UCFT_BOOL)
      .value("FLOAT_INT32", UCFT_FLOAT_INT32)
      .value("DOUBLE_INT32", UCFT_DOUBLE_INT32)
      .value("INT32_INT32", UCFT_INT32_INT32)
      .value("INT64_INT64", UCFT_INT64_INT64)
      .value("DOUBLE_INT64", UCFT_DOUBLE_INT64)
      .value("ACCUMULATOR", UCFT_ACCUMULATOR)
      .export_values();
  py::enum_<ucft_op_t>(m, "Op",
                       "Operators (ucft.h: ucft_op_t). Instead of one: a function f(a, b) that stores a op b in b.")
      .value("SUM", UCFT_SUM)
      .value("PROD", UCFT_PROD)
      .value("MIN", UCFT_MIN)
      .value("MAX", UCFT_MAX)
      .value("MINLOC", UCFT_MINLOC)
      .value("MAXLOC", UCFT_MAXLOC)
      .value("LAND", UCFT_LAND)
      .value("LOR", UCFT_LOR)
      .value("LXOR", UCFT_LXOR)
      .value("BAND", UCFT_BAND)
      .value("BOR", UCFT_BOR)
      .value("BXOR", UCFT_BXOR)
      .value("AVG", UCFT_AVG)
      .value("SUM_REPRODUCIBLE", UCFT_SUM_REPRODUCIBLE)
      .value("AVG_REPRODUCIBLE", UCFT_AVG_REPRODUCIBLE)
      .export_values();
  py::enum_<ucft_failure_kind_t>(m, "FailureKind")
      .value("SUSPECTED", UCFT_FAILURE_SUSPECTED)
      .value("PROVED", UCFT_FAILURE_PROVED);
  py::enum_<ucft_tree_t>(m, "Tree")
      .value("AUTO", UCFT_TREE_AUTO)
      .value("BINOMIAL", UCFT_TREE_BINOMIAL)
      .value("KARY", UCFT_TREE_KARY)
      .value("KNOMIAL", UCFT_TREE_KNOMIAL)
      .value("LAME", UCFT_TREE_LAME)
      .value("OPTIMAL", UCFT_TREE_OPTIMAL)
      .value("CHAIN", UCFT_TREE_CHAIN)
      .value("FLAT", UCFT_TREE_FLAT)
      .value("GOSSIP", UCFT_TREE_GOSSIP)
      .value("AUTO_OR_GOSSIP", UCFT_TREE_AUTO_OR_GOSSIP);
  py::enum_<ucft_numbering_t>(m, "Numbering").value("INTERLEAVED", UCFT_INTERLEAVED).value("IN_ORDER", UCFT_IN_ORDER);
  py::enum_<ucft_correction_t>(m, "Correction")
      .value("NONE", UCFT_CORRECTION_NONE)
      .value("OPPORTUNISTIC", UCFT_CORRECTION_OPPORTUNISTIC)
      .value("CHECKED", UCFT_CORRECTION_CHECKED)
      .value("OPPORTUNISTIC_OPTIMISED", UCFT_CORRECTION_OPPORTUNISTIC_OPTIMISED)
      .value("FAILURE_PROOF", UCFT_CORRECTION_FAILURE_PROOF);
  py::enum_<ucft_failure_info_t>(m, "FailureInfo")
      .value("LIST", UCFT_FAILURE_INFO_LIST)
      .value("COUNT", UCFT_FAILURE_INFO_COUNT)
      .value("BIT", UCFT_FAILURE_INFO_BIT);
  py::enum_<ucft_gossip_algorithm_t>(m, "GossipAlgorithm")
      .value("PUSH_SUM", UCFT_GOSSIP_PUSH_SUM)
      .value("PUSH_FLOW", UCFT_GOSSIP_PUSH_FLOW)
      .value("PFLC", UCFT_GOSSIP_PFLC)
      .value("PFCC", UCFT_GOSSIP_PFCC)
      .value("PCF", UCFT_GOSSIP_PCF)
      .value("PCF_FLIP", UCFT_GOSSIP_PCF_FLIP)
      .value("HPS", UCFT_GOSSIP_HPS)
      .value("HPFLC", UCFT_GOSSIP_HPFLC)
      .value("ARDB", UCFT_GOSSIP_ARDB)
      .value("RECURSIVE_DOUBLING", UCFT_GOSSIP_RECURSIVE_DOUBLING)
      .value("HPFCC", UCFT_GOSSIP_HPFCC);
  py::enum_<ucft_gossip_topology_t>(m, "GossipTopology")
      .value("COMPLETE", UCFT_GOSSIP_COMPLETE)
      .value("HYPERCUBE", UCFT_GOSSIP_HYPERCUBE)
      .value("TORUS_2D", UCFT_GOSSIP_TORUS_2D)
      .value("TORUS_3D", UCFT_GOSSIP_TORUS_3D)
      .value("RING", UCFT_GOSSIP_RING)
      .value("BUS", UCFT_GOSSIP_BUS)
      .value("TREE", UCFT_GOSSIP_TREE)
      .value("RANDOM_REGULAR", UCFT_GOSSIP_RANDOM_REGULAR);
  py::enum_<ucft_gossip_aggregate_t>(m, "GossipAggregate")
      .value("AVERAGE", UCFT_GOSSIP_AVERAGE)
      .value("SUM", UCFT_GOSSIP_SUM)
      .value("MINIMUM", UCFT_GOSSIP_MINIMUM)
      .value("MAXIMUM", UCFT_GOSSIP_MAXIMUM);
  py::enum_<ucft_gossip_stop_t>(m, "GossipStop")
      .value("ROUNDS", UCFT_GOSSIP_ROUNDS)
      .value("ADAPTIVE", UCFT_GOSSIP_ADAPTIVE);
  py::enum_<ucft_gossip_path_t>(m, "GossipPath")
      .value("AUTO", UCFT_GOSSIP_PATH_AUTO)
      .value("MESSAGE", UCFT_GOSSIP_PATH_MESSAGE)
      .value("RMA", UCFT_GOSSIP_PATH_RMA);
  py::enum_<ucft_rank_state_t>(m, "RankState")
      .value("COMPUTING", UCFT_RANK_COMPUTING)
      .value("IN_OPERATION", UCFT_RANK_IN_OPERATION)
      .value("MISMATCHED", UCFT_RANK_MISMATCHED)
      .value("STOPPED", UCFT_RANK_STOPPED)
      .value("SILENT", UCFT_RANK_SILENT)
      .value("DEAD", UCFT_RANK_DEAD)
      .value("OUT", UCFT_RANK_OUT)
      .value("LEFT", UCFT_RANK_LEFT)
      .value("UNKNOWN", UCFT_RANK_UNKNOWN);
  py::enum_<ucft_collective_t>(m, "Collective")
      .value("UNKNOWN", UCFT_COLLECTIVE_UNKNOWN)
      .value("ALLREDUCE", UCFT_COLLECTIVE_ALLREDUCE)
      .value("BARRIER", UCFT_COLLECTIVE_BARRIER)
      .value("BROADCAST", UCFT_COLLECTIVE_BROADCAST)
      .value("REDUCE", UCFT_COLLECTIVE_REDUCE)
      .value("ALLGATHER", UCFT_COLLECTIVE_ALLGATHER)
      .value("GATHER", UCFT_COLLECTIVE_GATHER)
      .value("REDUCE_SCATTER", UCFT_COLLECTIVE_REDUCE_SCATTER)
      .value("SCATTER", UCFT_COLLECTIVE_SCATTER)
      .value("ALLTOALL", UCFT_COLLECTIVE_ALLTOALL)
      .value("SCAN", UCFT_COLLECTIVE_SCAN)
      .value("EXSCAN", UCFT_COLLECTIVE_EXSCAN);
  py::enum_<ucft_gossip_answer_t>(m, "GossipAnswer")
      .value("ALL_RANKS", UCFT_GOSSIP_ALL_RANKS)
      .value("SURVIVORS", UCFT_GOSSIP_SURVIVORS)
      .value("NEARLY_ALL_RANKS", UCFT_GOSSIP_NEARLY_ALL_RANKS);
}

void bind_values(py::module_& m) {
  py::class_<ucft_failure_t>(m, "Failure", "What on_failure is told: a rank of the context that is dead.")
      .def_readonly("rank", &ucft_failure_t::rank)
      .def_readonly("kind", &ucft_failure_t::kind)
      .def_readonly("pid", &ucft_failure_t::pid)
      .def_readonly("known_at_ns", &ucft_failure_t::known_at_ns);
  py::class_<RankSight>(m, "Sight", "A rank as it is seen from another one (ucft.h: ucft_rank_sight_t).")
      .def_readonly("state", &RankSight::state)
      .def_readonly("last", &RankSight::last)
      .def_readonly("posted", &RankSight::posted)
      .def_readonly("finished", &RankSight::finished)
      .def_readonly("posted_at_ns", &RankSight::posted_at_ns)
      .def_readonly("heard_at_ns", &RankSight::heard_at_ns)
      .def_readonly("pid", &RankSight::pid)
      .def_property_readonly("waits_for", [](const RankSight& self) { return py::tuple(py::cast(self.waits_for)); })
      .def_readonly("text", &RankSight::text)
      .def("__repr__", [](const RankSight& self) { return "<ucft.Sight: " + self.text + ">"; });
  py::class_<InPlace>(m, "InPlace");
  m.attr("IN_PLACE") = py::cast(InPlace{});
  py::class_<Options, std::shared_ptr<Options>>(
      m, "Options",
      "How an operation is made (ucft.h: ucft_coll_options_t); the same on all ranks. Options(f=2, tree=Tree.BINOMIAL)")
      .def(py::init(&from_keywords<Options>))
      .def_readwrite("f", &Options::f, "failures tolerated in this operation; -1: the context's")
      .def_readwrite("first_root", &Options::first_root)
      .def_readwrite("tree", &Options::tree)
      .def_readwrite("arity", &Options::arity)
      .def_readwrite("numbering", &Options::numbering)
      .def_readwrite("correction", &Options::correction)
      .def_readwrite("correction_distance", &Options::correction_distance)
      .def_readwrite("failure_info", &Options::failure_info)
      .def_readwrite("tree_delay_quarters", &Options::tree_delay_quarters)
      .def_readwrite("correction_delay_us", &Options::correction_delay_us)
      .def_readwrite("gossip_time_ns", &Options::gossip_time_ns)
      .def_readwrite("reproducible_bins", &Options::reproducible_bins)
      .def_readwrite("reproducible_sweeps", &Options::reproducible_sweeps)
      .def_readwrite("uniform", &Options::uniform, "1: what a rank has returned that dies then, the survivors return")
      .def_readwrite("quorum", &Options::quorum,
                     "of allreduce: decided once so many ranks have posted it, and the deadline has passed")
      .def_readwrite("deadline_ns", &Options::deadline_ns, "with a quorum: from the first post on");
  py::class_<GossipOptions, std::shared_ptr<GossipOptions>>(
      m, "GossipOptions",
      "How a gossip is made (ucft.h: ucft_gossip_options_t); the same on all ranks. GossipOptions(eps=1e-9)")
      .def(py::init(&from_keywords<GossipOptions>))
      .def_readwrite("algorithm", &GossipOptions::algorithm)
      .def_readwrite("topology", &GossipOptions::topology)
      .def_readwrite("aggregate", &GossipOptions::aggregate)
      .def_readwrite("stop", &GossipOptions::stop)
      .def_readwrite("path", &GossipOptions::path)
      .def_readwrite("arity", &GossipOptions::arity)
      .def_readwrite("degree", &GossipOptions::degree)
      .def_readwrite("rounds", &GossipOptions::rounds)
      .def_readwrite("eps", &GossipOptions::eps)
      .def_readwrite("tau", &GossipOptions::tau)
      .def_readwrite("seed", &GossipOptions::seed)
      .def_readwrite("cycles", &GossipOptions::cycles)
      .def_readwrite("repair_initial", &GossipOptions::repair_initial);
  m.attr("Result") = make_result_type();
  py::class_<GossipResult>(m, "GossipResult", "How accurate a gossip was (ucft.h: ucft_gossip_result_t).")
      .def_readonly("value", &GossipResult::value)
      .def_readonly("eps", &GossipResult::eps)
      .def_readonly("error_bound", &GossipResult::error_bound, "measured, relative to the largest value of the result")
      .def_property_readonly("reached", [](const GossipResult& self) { return self.reached != 0; })
      .def_readonly("live_ranks", &GossipResult::live_ranks)
      .def_readonly("contributors", &GossipResult::contributors)
      .def_readonly("stages", &GossipResult::stages)
      .def_readonly("iterations", &GossipResult::iterations)
      .def_readonly("messages", &GossipResult::messages)
      .def_readonly("answer", &GossipResult::answer)
      .def_readonly("path", &GossipResult::path);
  m.attr("ANY_SOURCE") = UCFT_ANY_SOURCE;
  py::class_<Received>(m, "Received", "The message that a receive got (ucft.h: ucft_received_t).")
      .def_readonly("value", &Received::value, "the array that it is in: its first `count` elements")
      .def_readonly("source", &Received::source)
      .def_readonly("tag", &Received::tag)
      .def_readonly("count", &Received::count, "elements")
      .def("__repr__", [](const Received& self) {
        return fmt::format("<ucft.Received: {} elements of rank {}, tag {}>", self.count, self.source, self.tag);
      });
}

// The waiting form of a method that starts.
template <class... Types>
auto waiting(std::shared_ptr<Request> (Communicator::*method)(Types...)) {
  return [method](Communicator& self, Types... values) {
    return (self.*method)(std::forward<Types>(values)...)->wait({});
  };
}

// NAME waits, iNAME gives a request. arguments: those of both.
template <class Class, class Start, class Wait, class... Arguments>
void bind_operation(Class& communicator, const std::string& name, Start start, Wait wait, const std::string& text,
                    const Arguments&... arguments) {
  communicator.def(("i" + name).c_str(), start, arguments..., (text + "Returns a Request, already posted.").c_str());
  communicator.def(name.c_str(), wait, arguments...,
                   (text + "Waits; other threads run meanwhile, and Ctrl-C works.").c_str());
}

// allreduce(send, recv[, op]) of two arrays without pybind11's casts of arguments, which take longer than a small
// allreduce; called in any other way, the general form.
py::object* general_allreduce = nullptr;

PyObject* quick_allreduce(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  const bool has_arrays = names == nullptr && (count == 2 || count == 3) && PyObject_CheckBuffer(arguments[0]) != 0 &&
                          arguments[1] != Py_None;
  if (!has_arrays || (count == 3 && !py::isinstance<ucft_op_t>(arguments[2]))) {
    std::vector<PyObject*> all = {self};
    all.insert(all.end(), arguments, arguments + count + (names == nullptr ? 0 : PyTuple_GET_SIZE(names)));
    return PyObject_Vectorcall(general_allreduce->ptr(), all.data(), static_cast<std::size_t>(count) + 1, names);
  }
  try {
    auto* communicator =
        static_cast<Communicator*>(reinterpret_cast<py::detail::instance*>(self)->get_value_and_holder().value_ptr());
    return communicator
        ->allreduce_again(py::reinterpret_borrow<py::object>(arguments[0]),
                          py::reinterpret_borrow<py::object>(arguments[1]),
                          count == 3 ? py::cast<ucft_op_t>(py::handle(arguments[2])) : UCFT_SUM)
        .release()
        .ptr();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

// In the place of the general form, and with its docstring.
void bind_quick_allreduce(py::class_<Communicator, std::shared_ptr<Communicator>>& communicator) {
  general_allreduce = new py::object(communicator.attr("allreduce"));  // never destroyed, like the two below
  static const std::string& text = *new std::string(py::str(general_allreduce->attr("__doc__")));
  static PyMethodDef method = {"allreduce", nullptr, METH_FASTCALL | METH_KEYWORDS, text.c_str()};
  method.ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&quick_allreduce));
  communicator.attr("allreduce") = py::reinterpret_steal<py::object>(
      PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(communicator.ptr()), &method));
}

void bind_classes(py::module_& m) {
  py::class_<Request, std::shared_ptr<Request>>(m, "Request", "An operation under way. May be awaited.")
      .def("post", &Request::post, "Starts it again, once it is complete, on the same arrays.")
      .def("test", &Request::test,
           "Whether it is complete; lets operations advance. Raises what the operation failed of.")
      .def(
          "wait", &Request::wait, py::arg("timeout") = py::none(),
          "The Result; of a receive: the Received; of a send: None. timeout: seconds; then TimedOutError, and it goes\n"
          "on. Other threads run meanwhile, and Ctrl-C works: it is left to the context then. A receive that is\n"
          "dropped is cancelled.")
      .def("result", &Request::result, "What wait() returns, of the last completed post.")
      .def("contributors", &Request::contributors, "Of gossip: how many ranks' data are in the last estimate.")
      .def("estimate", &Request::estimate, "Of gossip: (values, error), what this rank thinks of the aggregate now.");

  py::class_<Communicator, std::shared_ptr<Communicator>> communicator(m, "Communicator",
                                                                       "Ranks that operate together.");
  communicator
      .def("__repr__",
           [](const Communicator& self) {
             return self.is_open() ? fmt::format("<ucft.Communicator: rank {} of {}>", self.rank(), self.size())
                                   : std::string("<ucft.Communicator: closed>");
           })
      .def_property_readonly("rank", &Communicator::rank)
      .def_property_readonly("size", &Communicator::size)
      .def_property_readonly("failed", &Communicator::failed,
                             "A tuple of the ranks known here to have failed, ascending. A local view.")
      .def("look", &Communicator::look,
           "A tuple of Sight, one for each rank: who is late. From any thread, also while another one is inside ucft.")
      .def_property_readonly("context", &Communicator::context)
      .def("dup", &Communicator::dup, "Collective. The survivors, in the same order.")
      .def("split", &Communicator::split, py::arg("colour"), py::arg("key") = 0,
           "Collective. One communicator per colour, ranks ordered by (key, old rank); colour None: in no part, None "
           "is returned.")
      .def(
          "renew",
          [](const std::shared_ptr<Communicator>& self, std::int32_t newcomers, double timeout, std::int32_t grow_to) {
            const py::object renewed = py::cast(self->renew(newcomers, timeout, grow_to));
            const py::object context = py::cast(self->context());
            if (py::getattr(context, "_world", py::none()).is(py::cast(self))) py::setattr(context, "_world", renewed);
            py::detail::keep_alive_impl(renewed, context);
            return renewed;
          },
          py::arg("newcomers") = -1, py::arg("timeout") = 0.0, py::arg("grow_to") = 0,
          "Collective over the survivors. A communicator of the same seats, with newcomers in those of ranks that have "
          "failed or\nleft. All arguments must be the same on all ranks.\n\n"
          "newcomers: how many are waited for, for timeout seconds; -1: one for each free seat. Then those that are "
          "ready are taken.\n"
          "grow_to: newcomers that find no seat free sit behind the last rank, up to so many ranks (at most 4096). The "
          "first call that\nasks for more begins to connect with them: without a timeout a later call takes them in.\n"
          "context.world is the renewed one from then on, if it was this one. This one is closed when it is dropped. "
          "If Ctrl-C\nends the wait, the renewal goes on; the next renew() returns it. Until then this rank can do "
          "nothing else: ThreadError.\n"
          "StateError: the job is not joinable, or this one was renewed before.")
      .def_property_readonly(
          "newcomers", &Communicator::newcomers,
          "A tuple of the ranks that have come with the renewal that made it, ascending; the same on "
          "all.")
      .def("share_state", &Communicator::share_state, py::arg("state"), py::arg("version") = 0,
           "Collective, after a renewal: a newcomer gets the bytes of the state of the lowest rank that is none. If "
           "that dies,\nthe next one goes on. Other ranks get back their state, which is only read. Without newcomers "
           "it does nothing.\n\n"
           "state: bytes, or anything with a buffer, C-contiguous; a newcomer's is not looked at: None.\n"
           "version: of the state's format. MismatchError: the donor has another one. TransportError: the checksum is "
           "wrong; the\ntext names the donor. RootFailedError: no rank that has the state lives.")
      .def("close", &Communicator::close,
           "Leaves the communicator; waits for no other rank. All requests must be complete.");

  const auto options = py::arg("options") = py::none();
  const auto dtype = py::arg("dtype") = py::none();
  const auto recv = py::arg("recv") = py::none();
  const auto op = py::arg("op") = UCFT_SUM;
  const auto root = py::arg("root") = 0;
  bind_operation(communicator, "allreduce", &Communicator::allreduce, waiting(&Communicator::allreduce),
                 doc("All survivors get send of all ranks, combined: the same bits, of the same contributors."),
                 py::arg("send"), recv, op, dtype, options);
  bind_quick_allreduce(communicator);
  bind_operation(
      communicator, "scan", &Communicator::scan, waiting(&Communicator::scan),
      doc("Rank r gets send of the ranks 0 to r, combined in their order. result.missing names the ranks that "
          "are in nobody's.",
          true),
      py::arg("send"), recv, op, dtype, options);
  bind_operation(communicator, "exscan", &Communicator::exscan, waiting(&Communicator::exscan),
                 doc("A scan of the ranks before this one. Where none of them has contributed, as on rank 0, recv is "
                     "left as it was.",
                     true),
                 py::arg("send"), py::arg("recv"), op, dtype, options);
  bind_operation(
      communicator, "alltoall", &Communicator::alltoall, waiting(&Communicator::alltoall),
      doc("From each rank what it has for this one. The place of a rank in result.missing is left as it was (in a "
          "new array: zeros). If each rank of one host gives more than 32 MiB, it may hold the beginning of the share.",
          true, "send, recv: (ranks, *shape), or one-dimensional, with a whole share for each rank.\n"),
      py::arg("send"), recv, dtype, options);
  bind_operation(communicator, "alltoallv", &Communicator::alltoallv, waiting(&Communicator::alltoallv),
                 doc("alltoall with shares of different lengths: send_counts[r] elements for rank r, recv_counts[r] "
                     "from rank r, at\n"
                     "the displacements (None: one after the other). In place send_counts is None.",
                     true),
                 py::arg("send"), py::arg("send_counts"), py::arg("recv"), py::arg("recv_counts"),
                 py::arg("send_displacements") = py::none(), py::arg("recv_displacements") = py::none(), dtype,
                 options);
  bind_operation(communicator, "reduce", &Communicator::reduce, waiting(&Communicator::reduce),
                 doc("The root gets send of all ranks, combined; recv matters there only.", true,
                     "RootFailedError on ranks that know that the root is dead.\n"),
                 py::arg("send"), recv, op, root, dtype, options);
  bind_operation(
      communicator, "reduce_scatter", &Communicator::reduce_scatter, waiting(&Communicator::reduce_scatter),
      doc("Each survivor gets its share of send of all ranks, combined.", true,
          "send: (ranks, *shape of recv), or one-dimensional, with a whole share for each rank. In place the "
          "shares of all are in\n"
          "recv, and this rank's comes to its beginning.\n"),
      py::arg("send"), recv, op, dtype, options);
  bind_operation(communicator, "reduce_scatterv", &Communicator::reduce_scatterv,
                 waiting(&Communicator::reduce_scatterv),
                 doc("reduce_scatter with shares of different lengths: counts[r] elements of rank r, behind those of "
                     "the ranks before it.",
                     true),
                 py::arg("send"), py::arg("recv"), py::arg("counts"), op, dtype, options);
  bind_operation(communicator, "broadcast", &Communicator::broadcast, waiting(&Communicator::broadcast),
                 doc("All survivors get the root's buffer, or all raise RootFailedError and keep what they had.", false,
                     "buffer: a writable array of the same type and length on all ranks.\n"),
                 py::arg("buffer"), root, dtype, options);
  bind_operation(
      communicator, "scatter", &Communicator::scatter, waiting(&Communicator::scatter),
      doc("Each survivor gets its share of the root's send, or all raise RootFailedError and keep what they had.",
          false,
          "send: (ranks, *shape of recv), or one-dimensional, with a whole share for each rank; away from the "
          "root it may be None.\n"
          "recv: needed there. At the root ucft.IN_PLACE leaves its share in send.\n"),
      py::arg("send"), recv, root, dtype, options);
  bind_operation(communicator, "scatterv", &Communicator::scatterv, waiting(&Communicator::scatterv),
                 doc("scatter with shares of different lengths: counts[r] elements of rank r, behind those of the "
                     "ranks before it.",
                     false),
                 py::arg("send"), py::arg("recv"), py::arg("counts"), root, dtype, options);
  bind_operation(communicator, "gather", &Communicator::gather, waiting(&Communicator::gather),
                 doc("The root gets every rank's block; recv, which matters there only: (ranks, *shape of send).", true,
                     "The place of a rank that `missing` names is left as it was (in a new array: zeros). "
                     "RootFailedError on ranks that\nknow that the root is dead.\n"),
                 py::arg("send"), recv, root, dtype, options);
  bind_operation(communicator, "allgather", &Communicator::allgather, waiting(&Communicator::allgather),
                 doc("All survivors get every rank's block; recv: (ranks, *shape of send).", true,
                     "A dead rank's block is there on all survivors or on none; then `missing` names it, and its place "
                     "is left as it was\n"
                     "(in a new array: zeros).\n"),
                 py::arg("send"), recv, dtype, options);
  bind_operation(
      communicator, "gatherv", &Communicator::gatherv, waiting(&Communicator::gatherv),
      doc("gather with blocks of different lengths: counts[r] elements of rank r, at displacements[r] (None: "
          "one after the\n"
          "other). recv and displacements matter at the root only.",
          true),
      py::arg("send"), py::arg("recv"), py::arg("counts"), root, py::arg("displacements") = py::none(), dtype, options);
  bind_operation(communicator, "allgatherv", &Communicator::allgatherv, waiting(&Communicator::allgatherv),
                 doc("allgather with blocks of different lengths: counts[r] elements of rank r, at displacements[r] "
                     "(None: one after the\n"
                     "other).",
                     true),
                 py::arg("send"), py::arg("recv"), py::arg("counts"), py::arg("displacements") = py::none(), dtype,
                 options);
  bind_operation(communicator, "agree", &Communicator::agree, waiting(&Communicator::agree),
                 doc("The AND of the flags of all ranks, in an array of one; result.missing are the ranks that are not "
                     "in it. All\nsurvivors get the same, and so has a rank that has returned and dies then.",
                     false),
                 py::arg("flags") = ~std::uint64_t{0}, options);
  bind_operation(communicator, "barrier", &Communicator::barrier, waiting(&Communicator::barrier),
                 doc("Complete once every rank that has not failed has entered.", false), options);
  bind_operation(communicator, "gossip", &Communicator::gossip, waiting(&Communicator::gossip),
                 doc("An all-reduce by gossip: the average (or sum) of float or double arrays, with a measured bound "
                     "of its error."),
                 py::arg("send"), recv, options, dtype);
  const auto tag = py::arg("tag") = 0;
  const char* const own_type =
      "dtype: instead of what the buffer says of its elements, e.g. FLOAT_INT32 for a structured array.\n";
  bind_operation(
      communicator, "send", &Communicator::send, waiting(&Communicator::send),
      doc("Sends values to one rank, under a tag. Complete, with None, once values may be changed again.", false,
          "values: anything with a buffer, C-contiguous; a number or a list becomes a NumPy array.\n") +
          own_type +
          "Up to 16 KiB it does not wait for its receive, unless 256 KiB lie unreceived there. "
          "PeerFailedError: the\ndestination has failed, or has left.\n",
      py::arg("values"), py::arg("destination"), tag, dtype);
  bind_operation(
      communicator, "recv", &Communicator::receive, waiting(&Communicator::receive),
      doc("A Received: the message of that source and tag that was sent first.", false,
          "out: a writable array. The message may be shorter, and its type is not compared.\n"
          "source: a rank, or ANY_SOURCE.\n") +
          own_type +
          "PeerFailedError: the source has failed, or has left, and no message of it is here; of ANY_SOURCE once for "
          "each rank\nthat has failed. TruncatedError: the message is longer than out, and lost; out is as it was. "
          "Both have the rank.\nA receive that is dropped, or interrupted, is cancelled.\n",
      py::arg("out"), py::arg("source") = UCFT_ANY_SOURCE, tag, dtype);

  py::class_<Context, std::shared_ptr<Context>>(m, "Context", "One rank of a job.")
      .def(
          py::init([](std::optional<std::int32_t> f, std::optional<bool> fence, Optional heartbeat_period,
                      Optional suspect_after, Optional startup_timeout, std::optional<std::int32_t> spin,
                      py::object on_failure, py::object allgather, std::optional<std::int32_t> rank,
                      std::optional<std::int32_t> size) {
            return std::make_shared<Context>(
                params_of(f, fence, heartbeat_period, suspect_after, startup_timeout, spin), std::move(on_failure),
                std::move(allgather), rank, size);
          }),
          py::kw_only(), py::arg("f") = py::none(), py::arg("fence") = py::none(),
          py::arg("heartbeat_period") = py::none(), py::arg("suspect_after") = py::none(),
          py::arg("startup_timeout") = py::none(), py::arg("spin") = py::none(), py::arg("on_failure") = py::none(),
          py::arg("allgather") = py::none(), py::arg("rank") = py::none(), py::arg("size") = py::none(),
          "Collective over the job that ucft_run, mpirun, prterun or srun has started; else a job of one rank.\n\n"
          "f: failures tolerated per operation by default. heartbeat_period, suspect_after, startup_timeout: seconds.\n"
          "on_failure: called with a Failure, once for each rank that dies, while this rank is inside ucft; it must "
          "not call ucft.\n"
          "allgather, rank, size: for a job that something else has started: a function that gives every rank's bytes "
          "in rank\n"
          "order, e.g. mpi4py's MPI.COMM_WORLD.allgather. Used while the context is made only.")
      .def("__repr__",
           [](const Context& self) {
             std::int32_t rank = -1;
             if (!self.is_open()) return std::string("<ucft.Context: closed>");
             if (ucft_context_rank(self.handle(), &rank) == UCFT_ERR_STATE)
               return std::string("<ucft.Context: in no job yet>");
             return fmt::format("<ucft.Context: rank {} of {}>", self.rank(), self.size());
           })
      .def_property_readonly("rank", &Context::rank)
      .def_property_readonly("size", &Context::size)
      .def_property_readonly("is_open", &Context::is_open)
      .def_property_readonly("settings", &Context::settings, "A line for each setting in force: NAME=value (source).")
      .def("progress", &Context::progress, "Lets pending operations advance.")
      .def(
          "communicator",
          [](const std::shared_ptr<Context>& self) {
            ucft_comm_h handle = UCFT_COMM_NULL;
            raise_unless_ok([&] {
              const py::gil_scoped_release released;
              return ucft_comm_create(self->handle(), &handle);
            }());
            return std::make_shared<Communicator>(self, handle);
          },
          py::keep_alive<0, 1>(), "A communicator of all ranks. The n-th call on each rank makes the same one.")
      .def(
          "join",
          [](const std::shared_ptr<Context>& self, double timeout) {
            return std::make_shared<Communicator>(self, self->join(timeout));
          },
          py::keep_alive<0, 1>(), py::arg("timeout") = 60.0,
          "The first communicator of a newcomer (UCFT_JOIN is in its environment), once survivors have renewed theirs "
          "with it.\nOf other processes: as communicator().\n\n"
          "timeout: seconds; then TimedOutError, and it may be called again. StartUpError: no member of the job can be "
          "reached,\nor the job refuses this process.")
      .def("waiting", &Context::waiting,
           "(ready, known): newcomers that a renewal could take now, and those that this rank knows of. A local view.")
      .def_property_readonly("address", &Context::address, "HOST:PORT of this rank, for UCFT_JOIN of a newcomer.")
      .def("close", &Context::close,
           "Leaves the job: that is no failure. Operations in progress get 10 s to complete first, else StateError.")
      .def("abandon", &Context::abandon,
           "Forgets it without leaving. When the process ends, that is a failure, which the others survive.");
}

}  // namespace
}  // namespace ucft::python

PYBIND11_MODULE(_ucft, m) {
  using namespace ucft::python;
  m.attr("__version__") = ucft_version();
  bind_enumerations(m);
  bind_values(m);
  bind_accumulator(m);
  bind_classes(m);
}
