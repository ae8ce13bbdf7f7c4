"""One program of many ops: a traced function, lowered to kernels, pointwise expressions and copies in one launch."""
