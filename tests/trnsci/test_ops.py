import pickle
from typing import Literal, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import trnblas
import trnfft
import trnsci
import trnsolver
from trnsci import Cost, UnsupportedError, neuron, op, run
from trnsci.gradient import saves
from trnsci.ops import Decision, all_ops, find
from trnsci.schema import schema
from trnsci.specs import TensorSpec, freeze, thaw
from trnsci.testing import gaussian


@op("trnmock::rich")
class Rich(NamedTuple):
    xs: list[Tensor]
    bias: Tensor | None = None
    scale: float = 2.0
    flip: bool = False
    mode: Literal["sum", "prod"] = "sum"
    axes: tuple[int, ...] = (0,)

    def fake(self) -> tuple[Tensor, Tensor]:
        return torch.empty_like(self.xs[0]), self.xs[0].new_empty(())

    def cost(self) -> int:
        return len(self.xs) * self.xs[0].numel()

    def limits(self, implementation: str) -> str | None:
        known = implementation != "nki" or self.xs[0].dtype in (torch.float32, torch.float64)
        return None if known else f"takes float32 and float64, not {self.xs[0].dtype}"

    def pytorch(self) -> tuple[Tensor, Tensor]:
        total = self.scale * sum(self.xs) if self.mode == "sum" else self.scale * torch.stack(list(self.xs)).prod(0)
        total = total.flip(self.axes) if self.flip else total
        return total.clone() if self.bias is None else total + self.bias, total.sum()

    def nki(self) -> tuple[Tensor, Tensor]:
        return self.pytorch()

    @saves("xs")
    def vjp(self, grads: tuple[Tensor, Tensor], needs: frozenset[str]) -> dict[str, object]:
        assert isinstance(self.bias, TensorSpec | None)
        pulled = self.scale * (grads[0] + grads[1])
        pulled = pulled.flip(self.axes) if self.flip else pulled
        if self.mode == "sum":
            gradients = {"xs": [pulled for _ in self.xs]}
        else:
            gradients = {"xs": [pulled * torch.stack([y for y in self.xs if y is not x]).prod(0) for x in self.xs]}
        if "bias" in needs:
            gradients["bias"] = grads[0].sum_to_size(self.bias.shape)
        return gradients


def operands(dtype=torch.float64, bias=True):
    xs = [gaussian((3, 2), i, dtype).requires_grad_() for i in range(3)]
    return xs, gaussian((2,), 9, dtype).requires_grad_() if bias else None


def one(name, **methods):
    """A new op ``x -> x + 1`` with the methods given, by default a PyTorch implementation and a kernel."""

    class One(NamedTuple):
        x: Tensor

        def fake(self) -> Tensor:
            return torch.empty_like(self.x)

        def cost(self) -> int:
            return self.x.numel()

    for method, fn in ({"pytorch": plus_one, "nki": plus_one} | methods).items():
        if fn is not None:
            setattr(One, method, fn)
    return op(f"trnmock::{name}")(One)


def plus_one(call):
    return call.x + 1


def test_the_fields_are_the_schema():
    expected = "(Tensor[] xs, Tensor? bias, float scale, bool flip, str mode, SymInt[] axes) -> (Tensor, Tensor)"
    assert schema(Rich) == expected


def test_a_field_that_torch_cannot_express_is_refused_when_the_op_is_defined():
    class Odd(NamedTuple):
        x: dict

        def fake(self) -> Tensor:
            raise AssertionError

    with pytest.raises(TypeError, match=r"dict.*has no schema type"):
        op("trnmock::odd")(Odd)


def test_an_op_without_the_type_of_its_result_is_told_what_to_write():
    class Silent(NamedTuple):
        x: Tensor

        def fake(self):
            raise AssertionError

    with pytest.raises(
        TypeError, match=r"Silent.fake does not say what it returns: write `def fake\(self\) -> Tensor`"
    ):
        op("trnmock::silent")(Silent)


@pytest.mark.parametrize("mode", ["sum", "prod"])
@pytest.mark.parametrize("backend", ["pytorch", "simulator"])
def test_lists_options_and_several_results(mode, backend):
    xs, bias = operands()
    with trnsci.backend(backend):
        total, scalar = run(Rich(xs, bias, flip=True, mode=mode))
    expected = 2.0 * (sum(xs) if mode == "sum" else xs[0] * xs[1] * xs[2]).flip(0)
    torch.testing.assert_close(total, expected + bias)
    torch.testing.assert_close(scalar, expected.sum())


@pytest.mark.parametrize("mode", ["sum", "prod"])
@pytest.mark.parametrize("bias", [True, False])
def test_gradients_of_lists_and_optional_tensors_through_kernels(mode, bias):
    xs, bias = operands(bias=bias)

    def function(*tensors):
        with trnsci.backend("simulator"):
            call = Rich(list(tensors[:3]), tensors[3] if bias is not None else None, 0.5, True, mode, (1,))
            return run(call)

    tensors = (*xs, bias) if bias is not None else xs
    assert torch.autograd.gradcheck(function, tensors)
    assert torch.autograd.gradgradcheck(function, tensors)


@pytest.mark.parametrize("bias", [True, False])
def test_opcheck(bias):
    xs, bias = operands(bias=bias)
    torch.library.opcheck(torch.ops.trnmock.rich.default, (xs, bias, 2.0, False, "sum", [0]))


def test_traced_calls_keep_dispatch_for_run_time():
    xs, bias = operands()
    compiled = torch.compile(
        lambda xs, bias: run(Rich(xs, bias, 2.0, True, "prod", (0,)))[0], fullgraph=True, backend="aot_eager"
    )
    for backend in ("pytorch", "simulator"):
        with trnsci.backend(backend), trnsci.ledger() as book:
            compiled(xs, bias).sum().backward()
        assert backend in {entry.step.backend for entry in book}
    torch.testing.assert_close(bias.grad, torch.full((2,), 6.0, dtype=torch.float64))


def test_meta_tensors_stay_meta_on_every_backend():
    xs = [torch.empty(3, 2, device="meta")] * 2
    for backend in ("pytorch", "simulator"):
        with trnsci.backend(backend):
            total, scalar = run(Rich(xs))
        assert total.is_meta
        assert scalar.shape == ()


def test_functional_transforms_run_on_pytorch_and_are_refused_by_kernels():
    x, y = gaussian((3, 2), 1), gaussian((3, 2), 2)

    def loss(x):
        return run(Rich([x, y], mode="prod"))[1]

    torch.testing.assert_close(torch.func.grad(loss)(x), 2.0 * y)
    torch.testing.assert_close(torch.func.vmap(loss)(torch.stack([x, y])), torch.stack([loss(x), loss(y)]))
    with trnsci.backend("simulator"), pytest.raises(UnsupportedError, match=r"torch\.func does not see into kernels"):
        torch.func.grad(loss)(x)


def test_a_frozen_call_is_the_same_class_and_thaws_to_shapes():
    xs, bias = operands()
    frozen = freeze(Rich(xs, bias))
    assert type(frozen) is Rich
    assert frozen.bias == TensorSpec((2,), torch.float64, requires_grad=True)
    assert hash(frozen) == hash(freeze(Rich(xs, bias)))
    assert pickle.loads(pickle.dumps(frozen)) == frozen
    thawed = thaw(frozen)
    assert type(thawed) is Rich
    assert isinstance(thawed.xs, list)
    assert thawed.xs[0].is_meta


def test_cost_counts_operands_and_results():
    xs, bias = operands()
    assert Rich._op.cost(Rich(xs, bias)) == Cost(18, 3 * 48 + 16, 48 + 8)


def test_a_whole_cost_is_taken_as_it_is():
    kind = one("whole_cost", cost=lambda call: Cost(1, 2, 3, 4))
    assert kind._op.cost(kind(torch.ones(2))) == Cost(1, 2, 3, 4)


def test_ops_are_found_by_name():
    assert find("trnmock::rich") is Rich._op
    assert Rich._op in all_ops()
    assert repr(Rich._op) == "Op('trnmock::rich')"


def test_an_op_without_gradient_rule_refuses_kernels_for_operands_that_require_grad():
    kind = one("no_rule")
    x = torch.ones(2, requires_grad=True)
    with trnsci.backend("simulator"):
        with pytest.raises(UnsupportedError) as caught:
            run(kind(x))
        reason = dict(caught.value.reasons)["simulator"]
        assert reason == "its kernel has no gradient rule, and an operand requires grad"
        assert not run(kind(x.detach())).requires_grad
        with torch.no_grad():
            run(kind(x))
    run(kind(x)).sum().backward()
    assert torch.equal(x.grad, torch.ones(2))


def test_an_op_without_kernel_and_one_without_pytorch_say_so():
    bare = one("no_kernel", nki=None)
    with trnsci.backend("simulator"), pytest.raises(UnsupportedError, match="simulator: has no NKI kernel"):
        run(bare(torch.ones(1)))
    only = one("only_kernel", pytorch=None)
    with pytest.raises(UnsupportedError, match="pytorch: has no PyTorch implementation") as caught:
        run(only(torch.ones(1)))
    assert 'Ask for backend "simulator"' in str(caught.value)
    with trnsci.backend("simulator"):
        assert run(only(torch.ones(1))) == 2


def test_out_is_written_in_place_on_pytorch_and_by_a_copy_elsewhere():
    direct = []

    def into(call, out):
        direct.append(out)
        torch.add(call.x, 1, out=out)

    kind = one("into", into=into)
    x, out = torch.ones(2), torch.empty(2)
    with trnsci.ledger() as book:
        assert run(kind(x), out) is out
    assert len(direct) == len(book) == 1
    with trnsci.backend("simulator"):
        assert run(kind(x), torch.empty(2)).tolist() == [2.0, 2.0]
    assert len(direct) == 1


def host_only_small(call, implementation):
    return "more than two elements" if implementation == "host" and call.x.numel() > 2 else None


HOST = {"host": lambda call: torch.from_numpy(call.x.numpy() + 1), "limits": host_only_small}


def test_host_runs_where_it_may_and_plan_explanation_and_ledger_name_it():
    kind = one("on_host", calls=lambda call, implementation: "numpy.add", **HOST)
    with trnsci.ledger() as book:
        run(kind(torch.ones(2)))
        run(kind(torch.ones(3)))
    assert [entry.step.implementation for entry in book] == ["host", "pytorch"]
    assert [entry.step.runs_on for entry in book] == ["host: numpy.add", "pytorch"]
    for size, implementation in ((2, "host"), (3, "pytorch")):
        assert trnsci.plan(kind, torch.ones(size)).steps[0].implementation == implementation
        explained = trnsci.explain(kind, torch.ones(size)).calls[0]
        assert (explained.chosen, explained.implementation) == ("pytorch", implementation)
    assert trnsci.explain(kind, torch.ones(3))["host"].refusal == "more than two elements"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: torch.ones(2, requires_grad=True), "requires grad"),
        (lambda: torch.ones(2, dtype=torch.complex64).conj(), "lazy conjugate"),
    ],
)
def test_host_refuses_what_only_torch_may_touch(make, reason):
    kind = one(f"host_refuses_{reason.replace(' ', '_')}", calls=lambda call, name: "numpy.add", **HOST)
    assert reason in kind._op.refusal(kind(make()), "host")
    assert kind._op.decide(kind(make())).implementation == "pytorch"


def test_host_is_invisible_to_transforms_and_modes():
    kind = one("host_under_modes", calls=lambda call, name: "numpy.add", **HOST)
    assert torch.func.vmap(lambda x: run(kind(x)))(torch.ones(3, 2)).tolist() == [[2.0, 2.0]] * 3
    with FlopCounterMode(display=False):
        assert kind._op.decide(kind(torch.ones(2))).implementation == "pytorch"


def test_one_decision_per_call(monkeypatch):
    kind = one("decided_once", vjp=lambda call, grad, needs: {"x": grad})
    decisions = []
    decide = kind._op.decide
    monkeypatch.setattr(kind._op, "decide", lambda call: decisions.append(call) or decide(call))
    for backend in ("pytorch", "simulator"):
        for x in (torch.ones(2), torch.ones(2, requires_grad=True)):
            decisions.clear()
            with trnsci.backend(backend):
                run(kind(x))
            assert len(decisions) == 1
            with trnsci.backend(backend), trnsci.ledger():
                run(kind(x))
            assert len(decisions) == 2


def test_auto_with_a_device_chooses_by_limits():
    def limits(call, implementation):
        if implementation == "pytorch":
            return "host says no" if call.x.numel() == 1 else None
        return "device says no" if call.x.numel() == 2 else None

    kind = one("auto", limits=limits)
    with neuron.stand_in():
        assert kind._op.decide(kind(torch.ones(1))) == Decision("nki", "nki", "pytorch refuses: host says no")
        decision = Decision("pytorch", "pytorch", "nki refuses: device says no")
        assert kind._op.decide(kind(torch.ones(2))) == decision


def test_pytorchs_own_limits_are_honoured():
    kind = one("limited", limits=lambda call, implementation: "too long" if call.x.numel() > 2 else None)
    assert run(kind(torch.ones(2))).tolist() == [2.0, 2.0]
    with pytest.raises(UnsupportedError, match="pytorch: too long"):
        run(kind(torch.ones(3)))


@op("trnmock::crossed")
class Crossed(NamedTuple):
    x: Tensor

    def fake(self) -> Tensor:
        return self.x.new_empty(self.x.shape)

    def cost(self) -> int:
        return self.x.numel()

    def pytorch(self) -> Tensor:
        # a lazy conjugate, and column-major memory
        return (1.0 * self.x.mH.conj()).mT.clone(memory_format=torch.preserve_format)


@op("trnmock::same")
class Same(Crossed):
    def pytorch(self) -> Tensor:
        return self.x


@pytest.mark.parametrize("kind", [Crossed, Same])
def test_compiled_programs_get_conjugates_strides_and_memory_as_promised(kind):
    x = torch.randn(3, 4, dtype=torch.complex64)
    for backend in ("aot_eager", "inductor"):
        result = torch.compile(lambda x: run(kind(x)) * 1j, fullgraph=True, backend=backend)(x)
        torch.testing.assert_close(result, x * 1j)
    torch.library.opcheck(kind._op.registered, (x,))


def r(*shape, dtype=torch.complex128):
    return gaussian(shape, dtype=dtype)


OPTIONS = {
    "keyword": lambda: (lambda a, b: trnblas.gemm(2.0, a, b, trans_a="c"), r(2, 4, 3), r(4, 2)),
    "complex policy": lambda: (lambda a, x: trnblas.gemv(2.0, a, x), r(3, 4), r(4)),
    "out": lambda: (lambda a, b, y: trnblas.trmm(2.0, a, b, out=y), r(3, 3), r(3, 2), r(3, 2)),
    "out over an operand": lambda: (lambda x, y: trnblas.axpy(x, y[1:], 2.0, out=y[:-1]), r(3), r(4)),
    "real out": lambda: (lambda x, y: trnblas.nrm2(x, out=y), r(2, 3), r(2, dtype=torch.float64)),
    "several": lambda: (lambda a, q, b: trnsolver.qr(a, out=(q, b)), r(3, 2), r(3, 2), r(2, 2)),
    "tuple": lambda: (lambda a: trnsolver.eigh(a, subset_by_index=(1, 2)).values, r(4, 4)),
    "integer": lambda: (lambda a, p=1: trnsolver.cond(a, p), r(3, 3)),
    "tolerance": lambda: (lambda a: trnsolver.pinv(a, rtol=1e-9), r(4, 2)),
    "window": lambda: (lambda x: trnfft.stft(x, 8, win_length=6), r(24, dtype=torch.float64)),
    "sum of lengths": lambda: (lambda a, b: trnfft.fftconvolve(a, b), r(6), r(4)),
    "shortest length": lambda: (lambda x: trnfft.dct(x, type=1), r(5, dtype=torch.float64)),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_functions_with_options_are_traced_whole_with_sizes_that_change(name):
    function, *given = OPTIONS[name]()
    mine, theirs = [x.clone() for x in given], [x.clone() for x in given]
    torch.compiler.reset()
    result = torch.compile(function, fullgraph=True, backend="eager", dynamic=True)(*mine)
    if "over" in name:
        with pytest.raises(trnsci.ArgumentError, match="memory shared"):
            function(*theirs)
        theirs[1][:-1] = expected = theirs[1][1:] + 2.0 * theirs[0]
    else:
        expected = function(*theirs)
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(mine, theirs)


def test_gradients_of_type_1_take_sizes_that_change():
    x = r(5, dtype=torch.float64).requires_grad_()
    program = torch.compile(lambda x: trnfft.dct(x, type=1), fullgraph=True, backend="aot_eager", dynamic=True)
    (found,) = torch.autograd.grad(program(x)[1], x)
    torch.testing.assert_close(found, torch.autograd.grad(trnfft.dct(x, type=1)[1], x)[0])


def test_one_memory_for_two_results_is_refused_in_traced_code_too():
    a, q = r(2, 2), r(2, 2)
    with pytest.raises(trnsci.ArgumentError, match="memory shared"):
        torch.compile(lambda a, q: trnsolver.qr(a, out=(q, q)), backend="eager")(a, q)
