"""Names of torch that are private: all that the suite uses, each with the public one it waits for.

Every other module takes them from here, so that a release of torch that moves one is met in one place. They are looked
up when they are first asked for: some are in modules that take long to import.
"""

from __future__ import annotations

import pkgutil
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode

# where each name is in torch; the comments say which public one it waits for
_PRIVATE = {
    # a public module of dispatch modes that also says which are active, and suspends them
    "dispatch_modes": "torch._C._len_torch_dispatch_stack",
    "current_modes": "torch.utils._python_dispatch._get_current_dispatch_mode_stack",
    "current_mode": "torch.utils._python_dispatch._get_current_dispatch_mode",
    "pop_mode": "torch.utils._python_dispatch._pop_mode_temporarily",
    "disable_modes": "torch.utils._python_dispatch._disable_current_modes",
    "disable_torch_dispatch": "torch._C._DisableTorchDispatch",
    "disable_torch_function": "torch._C.DisableTorchFunctionSubclass",
    "is_traceable_wrapper_subclass": "torch.utils._python_dispatch.is_traceable_wrapper_subclass",
    # a torch.func that says whether it is transforming a call, and shows the tensors it wraps
    "peek_interpreter_stack": "torch._C._functorch.peek_interpreter_stack",
    "is_functorch_wrapped_tensor": "torch._C._functorch.is_functorch_wrapped_tensor",
    "is_batchedtensor": "torch._C._functorch.is_batchedtensor",
    "get_unwrapped": "torch._C._functorch.get_unwrapped",
    "TransformType": "torch._C._functorch.TransformType",
    "disable_functorch": "torch._C._DisableFuncTorch",
    # keys in torch.library that a library may switch on and off around calls
    "DispatchKey": "torch._C.DispatchKey",
    "DispatchKeySet": "torch._C.DispatchKeySet",
    "parse_key": "torch._C._dispatch_key_parse",
    "include_key": "torch._C._IncludeDispatchKeyGuard",
    "exclude_keys": "torch._C._ExcludeDispatchKeyGuard",
    "force_keys": "torch._C._ForceDispatchKeyGuard",
    "included_keys": "torch._C._dispatch_tls_local_include_set",
    "excluded_keys": "torch._C._dispatch_tls_local_exclude_set",
    "has_kernel": "torch._C._dispatch_has_kernel_for_dispatch_key",
    "operator_names": "torch._C._dispatch_get_all_op_names",
    "higher_order": "torch._ops",
    # a public torch.utils.pytree
    "tree_flatten": "torch.utils._pytree.tree_flatten",
    "tree_leaves": "torch.utils._pytree.tree_leaves",
    "tree_map": "torch.utils._pytree.tree_map",
    "tree_unflatten": "torch.utils._pytree.tree_unflatten",
    # a public way to trace without data, to split off gradients, and to be a backend of torch.compile
    "FakeTensor": "torch._subclasses.fake_tensor.FakeTensor",
    "fake_tensor": "torch._subclasses.fake_tensor",
    "HigherOrderOperator": "torch._ops.HigherOrderOperator",
    "effects": "torch._higher_order_ops.effects",
    "decomp": "torch._decomp",
    "make_boxed_func": "torch._functorch._aot_autograd.utils.make_boxed_func",
    "aot_function": "torch._functorch.aot_autograd.aot_function",
    "aot_config": "torch._functorch.config",
    "aot_autograd": "torch._dynamo.backends.common.aot_autograd",
    "list_backends": "torch._dynamo.backends.registry.list_backends",
    "lookup_backend": "torch._dynamo.backends.registry.lookup_backend",
    "register_backend": "torch._dynamo.backends.registry.register_backend",
    "openxla_eval_boxed": "torch._dynamo.backends.torchxla.openxla_eval_boxed",
    "inductor": "torch._inductor.compile_fx",
    "select_decomp_table": "torch._inductor.decomposition.select_decomp_table",
    "disable_dynamo": "torch._disable_dynamo",
    # torch.amp and torch.backends that say it of all devices at once
    "disable_autocast": "torch._C._DisableAutocast",
    "is_autocast": "torch._C._is_any_autocast_enabled",
    "fp32_precision": "torch._C._get_fp32_precision_getter",
    "set_fp32_precision": "torch._C._set_fp32_precision_setter",
    # public functions that do the same: for products and draws, for CUDA's stream, for a device written in Python
    "standard_gamma_grad": "torch._standard_gamma_grad",
    "int_mm": "torch._int_mm",
    "fused_sdp_choice": "torch._fused_sdp_choice",
    "parse_to": "torch._C._nn._parse_to",
    "cuda_device": "torch._C._cuda_getDevice",
    "cuda_stream": "torch._C._cuda_getCurrentRawStream",
    "create_empty_tensor": "torch._C._acc.create_empty_tensor",
    "setup_python_backend": "torch.utils.backend_registration._setup_privateuseone_for_python_backend",
    "c10d": "torch._C._distributed_c10d",
    "world": "torch.distributed.distributed_c10d._world",
}


def __getattr__(name: str) -> Any:
    if name not in _PRIVATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = pkgutil.resolve_name(_PRIVATE[name])
    return value
