import pytest
import torch
from torch import Tensor

import trnsci
from trnsci import Cost, Op, UnsupportedError, neuron
from trnsci.deprecated import Saved
from trnsci.ops import all_ops, find
from trnsci.specs import TensorSpec
from trnsci.testing import gaussian

pytestmark = pytest.mark.filterwarnings("ignore:decorate a NamedTuple")


def _fake(
    xs: list[Tensor], bias: Tensor | None, scale: float, flip: bool, mode: str, axes: list[int]
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(xs[0]), xs[0].new_empty(())


def _cost(xs: list[Tensor], bias: Tensor | None, scale: float, flip: bool, mode: str, axes: list[int]) -> int:
    return len(xs) * xs[0].numel()


with pytest.warns(DeprecationWarning, match="decorate a NamedTuple with trnsci.op"):
    rich = Op("trnmock::old_rich", fake=_fake, cost=_cost)


@rich.impl("pytorch")
@rich.impl("nki", dtypes=(torch.float32, torch.float64))
def _rich(
    xs: list[Tensor], bias: Tensor | None, scale: float, flip: bool, mode: str, axes: list[int]
) -> tuple[Tensor, Tensor]:
    total = scale * sum(xs) if mode == "sum" else scale * torch.stack(xs).prod(0)
    total = total.flip(axes) if flip else total
    return total if bias is None else total + bias, total.sum()


@rich.vjp(saves=("xs",))
def _rich_gradient(saved: Saved, grad: Tensor, grad_sum: Tensor):
    assert isinstance(saved.bias, TensorSpec | None)
    pulled = saved.scale * (grad + grad_sum)
    pulled = pulled.flip(saved.axes) if saved.flip else pulled
    if saved.mode == "sum":
        found = {"xs": [pulled for _ in saved.xs]}
    else:
        found = {"xs": [pulled * torch.stack([y for y in saved.xs if y is not x]).prod(0) for x in saved.xs]}
    if saved.needs("bias"):
        found["bias"] = grad.sum_to_size(saved.bias.shape)
    return found


def operands(dtype=torch.float64, bias=True):
    xs = [gaussian((3, 2), i, dtype).requires_grad_() for i in range(3)]
    return xs, gaussian((2,), 9, dtype).requires_grad_() if bias else None


@pytest.mark.parametrize("mode", ["sum", "prod"])
@pytest.mark.parametrize("backend", ["pytorch", "simulator"])
def test_lists_options_and_several_results(mode, backend):
    xs, bias = operands()
    with trnsci.backend(backend):
        total, scalar = rich(xs, bias, 2.0, True, mode, [0])
    expected = 2.0 * (sum(xs) if mode == "sum" else xs[0] * xs[1] * xs[2]).flip(0)
    torch.testing.assert_close(total, expected + bias)
    torch.testing.assert_close(scalar, expected.sum())


@pytest.mark.parametrize("mode", ["sum", "prod"])
@pytest.mark.parametrize("bias", [True, False])
def test_gradients_of_lists_and_optional_tensors_through_kernels(mode, bias):
    xs, bias = operands(bias=bias)

    def function(*tensors):
        with trnsci.backend("simulator"):
            return rich(list(tensors[:3]), tensors[3] if bias is not None else None, 0.5, True, mode, [1])

    tensors = (*xs, bias) if bias is not None else xs
    assert torch.autograd.gradcheck(function, tensors)
    assert torch.autograd.gradgradcheck(function, tensors)


@pytest.mark.parametrize("bias", [True, False])
def test_opcheck(bias):
    xs, bias = operands(bias=bias)
    torch.library.opcheck(torch.ops.trnmock.old_rich.default, (xs, bias, 2.0, False, "sum", [0]))


def test_traced_calls_keep_dispatch_for_run_time():
    xs, bias = operands()
    compiled = torch.compile(
        lambda xs, bias: rich(xs, bias, 2.0, True, "prod", [0])[0], fullgraph=True, backend="aot_eager"
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
            total, scalar = rich(xs, None, 2.0, False, "sum", [0])
        assert total.is_meta
        assert scalar.shape == ()


def test_functional_transforms_run_on_pytorch_and_are_refused_by_kernels():
    x, y = gaussian((3, 2), 1), gaussian((3, 2), 2)

    def loss(x):
        return rich([x, y], None, 2.0, False, "prod", [0])[1]

    torch.testing.assert_close(torch.func.grad(loss)(x), 2.0 * y)
    torch.testing.assert_close(torch.func.vmap(loss)(torch.stack([x, y])), torch.stack([loss(x), loss(y)]))
    with trnsci.backend("simulator"), pytest.raises(UnsupportedError, match=r"torch\.func does not see into kernels"):
        torch.func.grad(loss)(x)


def test_it_says_that_it_is_deprecated():
    with pytest.warns(DeprecationWarning, match="decorate a NamedTuple with trnsci.op"):
        Op("trnmock::old_warned", fake=lambda x: x, cost=lambda x: 1, schema="(Tensor x) -> Tensor")


def test_keywords_are_accepted():
    xs, bias = operands()
    named = rich(xs, bias=bias, scale=2.0, flip=False, mode="sum", axes=[0])
    torch.testing.assert_close(named[0], rich(xs, bias, 2.0, False, "sum", [0])[0])
    with trnsci.backend("simulator"):
        torch.testing.assert_close(rich(xs, bias, scale=2.0, flip=False, mode="sum", axes=[0])[0], named[0])


def test_cost_counts_operands_and_results():
    xs, bias = operands()
    assert rich.cost(xs, bias, 2.0, False, "sum", [0]) == Cost(18, 3 * 48 + 16, 48 + 8)


def test_a_whole_cost_is_taken_as_it_is():
    op = Op("trnmock::old_whole_cost", fake=lambda x: x, cost=lambda x: Cost(1, 2, 3, 4), schema="(Tensor x) -> Tensor")
    assert op.cost(torch.ones(2)) == Cost(1, 2, 3, 4)


def test_ops_are_found_by_name():
    assert find("trnmock::old_rich") is rich.core
    assert rich.core in all_ops()
    assert repr(rich) == "Op('trnmock::old_rich')"


def _one(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def _flops(x: Tensor) -> int:
    return x.numel()


def test_an_op_without_gradient_rule_refuses_kernels_for_operands_that_require_grad():
    op = Op("trnmock::old_no_rule", fake=_one, cost=_flops)
    op.impl("pytorch")(lambda x: x * 2)
    op.impl("nki")(lambda x: x * 2)
    x = torch.ones(2, requires_grad=True)
    with trnsci.backend("simulator"):
        with pytest.raises(UnsupportedError) as caught:
            op(x)
        assert (
            dict(caught.value.reasons)["simulator"] == "its kernel has no gradient rule, and an operand requires grad"
        )
        assert not op(x.detach()).requires_grad
        with torch.no_grad():
            op(x)
    op(x).sum().backward()
    assert torch.equal(x.grad, torch.tensor([2.0, 2.0]))


def test_an_op_without_kernel_and_one_without_pytorch_say_so():
    bare = Op("trnmock::old_no_kernel", fake=_one, cost=_flops)
    bare.impl("pytorch")(lambda x: x + 1)
    with trnsci.backend("simulator"), pytest.raises(UnsupportedError, match="simulator: has no NKI kernel"):
        bare(torch.ones(1))
    only = Op("trnmock::old_only_kernel", fake=_one, cost=_flops)
    only.impl("nki")(lambda x: x + 1)
    with pytest.raises(UnsupportedError, match="pytorch: has no PyTorch implementation") as caught:
        only(torch.ones(1))
    assert 'Ask for backend "simulator"' in str(caught.value)
    with trnsci.backend("simulator"):
        assert only(torch.ones(1)) == 2


def test_write_uses_into_on_pytorch_and_copies_elsewhere():
    op = Op("trnmock::old_into", fake=_one, cost=_flops)
    op.impl("pytorch")(lambda x: x + 1)
    op.impl("nki")(lambda x: x + 1)
    direct = []

    @op.into
    def into(out, x):
        direct.append(out)
        torch.add(x, 1, out=out)

    x, out = torch.ones(2), torch.empty(2)
    with trnsci.ledger() as book:
        assert op.write(out, x) is out
    assert len(direct) == len(book) == 1
    with trnsci.backend("simulator"):
        assert op.write(torch.empty(2), x).tolist() == [2.0, 2.0]
    assert len(direct) == 1


def test_the_dispatcher_limits_of_pytorch_are_honoured_on_the_direct_path():
    op = Op("trnmock::old_limited", fake=_one, cost=_flops)
    op.impl("pytorch", limits=lambda x: "too long" if x.numel() > 2 else None)(lambda x: x + 1)
    assert op(torch.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(UnsupportedError, match="pytorch: too long"):
        op(torch.ones(3))


def test_auto_with_a_device_chooses_by_limits(monkeypatch):
    op = Op("trnmock::old_auto", fake=_one, cost=_flops)
    op.impl("pytorch", limits=lambda x: "host says no" if x.numel() == 1 else None)(lambda x: x + 1)
    op.impl("nki", limits=lambda x: "device says no" if x.numel() == 2 else None)(lambda x: x + 1)
    with neuron.stand_in():
        assert op.decide((torch.ones(1),)) == ("nki", "pytorch refuses: host says no")
        assert op.decide((torch.ones(2),)) == ("pytorch", "nki refuses: device says no")


def test_saved_gives_arguments_by_name_and_says_what_is_needed():
    saved = Saved({"a": 1, "alpha": 2.0}, "result", frozenset({"a"}))
    assert (saved.a, saved.alpha, saved.result) == (1, 2.0, "result")
    assert saved.needs("a")
    assert not saved.needs("alpha")
    with pytest.raises(AttributeError, match="the op has no argument 'b'"):
        _ = saved.b
