"""Operators of torch that Neuron's own PyTorch runs, so that nothing of the suite is needed for them."""

from __future__ import annotations

import torch

# what AWS's own PyTorch compiles for the device, besides views and everything that goes element by element
_NEURON = frozenset(
    [
        "convolution",
        "conv1d",
        "conv2d",
        "conv3d",
        "native_layer_norm",
        "native_group_norm",
        "native_batch_norm",
        "batch_norm",
        "embedding",
        "_softmax",
        "_log_softmax",
        "max_pool2d_with_indices",
        "avg_pool2d",
        "_adaptive_avg_pool2d",
        "upsample_nearest2d",
        "nll_loss_forward",
        "sum",
        "mean",
        "amax",
        "amin",
        "argmax",
        "max",
        "min",
        "cumsum",
        "prod",
        "var",
        "std",
        "cat",
        "stack",
        "index_select",
        "gather",
        "scatter",
        "where",
        "clone",
        "copy_",
        "_to_copy",
        "_unsafe_view",
        "index",
        "sort",
        "topk",
        "pad",
        "constant_pad_nd",
        "convolution_backward",
        "native_layer_norm_backward",
        "embedding_dense_backward",
        "_softmax_backward_data",
    ]
)


def runs_on_neuron(operator: str) -> bool:
    """Return whether the Neuron SDK's own PyTorch runs an operator of torch's, so that nothing of ours is needed."""
    if operator in _NEURON:
        return True
    overloads = getattr(torch.ops.aten, operator, None)
    if overloads is None:
        return False
    known = [getattr(overloads, name) for name in overloads.overloads()]
    return any(operator.is_view or torch.Tag.pointwise in operator.tags for operator in known)
