"""The transforms that all others call, as ops: complex to complex, real to complex, complex to real, over any axes.

Each exists twice: on complex tensors, and on split planes for devices that have no complex dtype. All are linear, so
the gradient of one is another: the adjoint transform.
"""

from trnfft.ops.fft import C2C, C2R, R2C, half_shape
from trnfft.ops.planes import C2CPlanes, C2RPlanes, R2CPlanes, merge_planes

__all__ = ["C2C", "C2R", "R2C", "C2CPlanes", "C2RPlanes", "R2CPlanes", "half_shape", "merge_planes"]
