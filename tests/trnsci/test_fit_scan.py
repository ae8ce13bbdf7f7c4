"""Sources for CUDA, read by their syntax trees: what counts as a call, and what each is told."""

import json
import subprocess
import sys

import pytest

from trnsci import ArgumentError
from trnsci.fit import fit
from trnsci.fit_scan import OWN, scan


def _symbols(tmp_path, text, name="program.cu", **more):
    for file, content in {name: text, **more}.items():
        (tmp_path / file.replace("_h", ".h")).write_text(content)
    return {symbol.name: symbol for symbol in scan(tmp_path / name).symbols}


def test_comments_and_strings_are_not_calls(tmp_path):
    text = (
        '// cublasSgemm(h);\n/* cufftExecC2C(p); */\nconst char *s = "curandGenerate(g)";\nint main() { return 0; }\n'
    )
    assert _symbols(tmp_path, text) == {}
    assert fit(tmp_path / "program.cu").verdict.endswith("was read, not run: it calls nothing of CUDA's.")


def test_every_library_counts_known_or_not(tmp_path):
    symbols = _symbols(
        tmp_path,
        """int main() {
  thrust::sort(thrust::device, v.begin(), v.end());
  float s = thrust::reduce<int>(v.begin(), v.end());
  cub::DeviceScan::ExclusiveSum(tmp, bytes, in, out, n);
  ncclAllReduce(a, b, 4, ncclFloat, ncclSum, comm, st);
  cudnnConvolutionForward(h, x);
  nvshmem_float_put(a, b, 3, 1);
  cublasFrobnicate(h);
  cudaMalloc(&p, 12);
  cuMemAlloc(&d, 12);
  own_helper(3);
}
""",
    )
    states = {name: symbol.state for name, symbol in symbols.items()}
    assert states == {
        "thrust::sort": "torch",
        "thrust::reduce": "torch",
        "cub::DeviceScan::ExclusiveSum": "torch",
        "ncclAllReduce": "torch",
        "cudnnConvolutionForward": "torch",
        "nvshmem_float_put": "write",
        "cublasFrobnicate": "unknown",
        "cudaMalloc": "unneeded",
        "cuMemAlloc": "unneeded",
    }
    assert "torch.distributed" in symbols["ncclAllReduce"].here
    # what is missing comes first
    assert next(iter(symbols)) == "cublasFrobnicate"
    verdict = scan(tmp_path / "program.cu").verdict
    assert verdict.startswith("7 calls of libraries, 5 plain PyTorch, 1 not known")


def test_arguments_choose_the_analog_and_its_options(tmp_path):
    symbols = scan_in_order(
        tmp_path,
        "int main() { cufftExecC2C(p, a, b, CUFFT_INVERSE); cufftExecC2C(p, a, b, CUFFT_FORWARD);\n"
        "cublasDgemm(h, CUBLAS_OP_N, CUBLAS_OP_T, m, n, k, &x, A, m, B, n, &y, C, m);\n"
        "cublasZgemmStridedBatched(h, CUBLAS_OP_C, CUBLAS_OP_N, m, n, k, &x);\n"
        "cusparseSpMM(h, CUSPARSE_OPERATION_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &x); cublasCreate(&h); }",
    )
    assert [(s.name, s.here.split()[0], s.options) for s in symbols if s.state == "analog"] == [
        ("cublasDgemm", "trnblas.gemm", ("float64", "trans_b=True")),
        ("cublasZgemmStridedBatched", "trnblas.gemm", ("complex128", "trans_a=True", "batch as a leading axis")),
        ("cufftExecC2C", "trnfft.ifft", ("inverse",)),
        ("cufftExecC2C", "trnfft.fft", ("forward",)),
        ("cusparseSpMM", "trnsparse.spmm", ("trans_a=True",)),
    ]
    (created,) = [s for s in symbols if s.name == "cublasCreate"]
    assert created.state == "unneeded"
    assert not created.options


def scan_in_order(tmp_path, text):
    (tmp_path / "program.cu").write_text(text)
    return scan(tmp_path / "program.cu").symbols


def test_kernels_of_its_own_with_their_launches(tmp_path):
    symbols = _symbols(
        tmp_path,
        "template <typename T> __global__ void axpy(T a, const T *x, T *y) { y[threadIdx.x] += a * x[threadIdx.x]; }\n"
        "__global__ void __launch_bounds__(256) scale(float *x) { x[0] = 0; }\n"
        "int main() { axpy<<<1, 256>>>(2.0f, x, y);\n axpy<float><<<1, 256>>>(2.0f, x, y);\n scale<<<1, 1>>>(x); }\n",
    )
    assert {name: (s.times, s.here) for name, s in symbols.items()} == {"axpy": (2, OWN), "scale": (1, OWN)}
    assert symbols["axpy"].where == ("program.cu:1", "program.cu:3", "program.cu:4")


def test_macros_branches_headers_and_hip(tmp_path):
    symbols = _symbols(
        tmp_path,
        '#include "wrap.h"\n#define GEMM cublasSgemm\n#define SOLVE(x) do { cusolverDnSpotrf(x); } while (0)\n'
        "int main() { CHECK(GEMM(h));\n#ifdef FAST\ncufftExecR2C(p, a, b);\n#else\ncufftExecD2Z(p, a, b);\n#endif\n}\n",
        wrap_h="static void f() { hipblasDgemm(h); hipMalloc(&p, 3); }\n",
    )
    assert {name: s.here for name, s in symbols.items() if s.state == "analog"} == {
        "cublasSgemm": "trnblas.gemm",
        "cusolverDnSpotrf": "trnsolver.cholesky",
        "cufftExecR2C": "trnfft.rfft",
        "cufftExecD2Z": "trnfft.rfft",
        "hipblasDgemm": "trnblas.gemm",
    }
    assert symbols["hipblasDgemm"].where == ("wrap.h:1",)
    assert symbols["hipMalloc"].state == "unneeded"


def test_constant_sizes_are_predicted(tmp_path):
    symbols = _symbols(
        tmp_path,
        "#define N 1024\nconst int K = N / 2;\nint main(int n) {\n"
        "cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, N, N, K, &a, A, N, B, N, &b, C, N);\n"
        "cufftPlan1d(&p, 1 << 12, CUFFT_C2C, 8); cusolverDnSpotrf(h, 0, n, A, n); }",
    )
    assert symbols["cublasSgemm"].predicted.endswith("us predicted on trn2")
    assert "predicted on trn2" in symbols["cufftPlan1d"].predicted
    assert symbols["cusolverDnSpotrf"].predicted == ""


def test_cuda_fortran(tmp_path):
    symbols = _symbols(
        tmp_path,
        "program p\n  use cublas_v2\n  integer, parameter :: n = 1024\n  ! cublasZgemm(h)\n"
        "  istat = cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, 1.0, a, n, b, n, 0.0, c, n)\n"
        "  call CUBLASDGEMM('n', 't', n, n, n, 1.0d0, a, n, b, n, 0.0d0, c, n)\n"
        "  call saxpy<<<grid, tBlock>>>(x, y, a)\ncontains\n"
        "  attributes(global) subroutine saxpy(x, y, a)\n    real :: x(:), y(:)\n    y(1) = 2\n  end subroutine\n"
        "end program\n",
        name="program.cuf",
    )
    assert symbols["cublasSgemm"].options == ("float32", "trans_b=True")
    assert symbols["cublasSgemm"].predicted.endswith("predicted on trn2")
    assert symbols["CUBLASDGEMM"].here == "trnblas.gemm"
    assert (symbols["saxpy"].times, symbols["saxpy"].here) == (1, OWN)
    assert "cublasZgemm" not in symbols


def test_cupy_functions_methods_operators_and_kernels(tmp_path):
    symbols = _symbols(
        tmp_path,
        '"""cupy.linalg.qr(x)"""\nimport cupy as cp\nfrom cupyx.scipy.sparse.linalg import cg as solve\n'
        "a = cp.linalg.svd(cp.ones((3, 3)))\nb=a@a\nb @= a\nc = a.dot(a)\nd = cp.where(a > 0, a, 0)\ne = solve(a, b)\n"
        "k = cp.RawKernel('code', 'mine')\nl = cp.RawKernel('code', 'other')\nf = cp.frobnicate(a)\n",
        name="program.py",
    )
    assert {name: (s.times, s.state) for name, s in symbols.items()} == {
        "cupy.frobnicate": (1, "missing"),
        "cupy.RawKernel:mine": (1, "write"),
        "cupy.RawKernel:other": (1, "write"),
        "cupy.ones": (1, "torch"),
        "cupy.where": (1, "torch"),
        "@": (2, "analog"),
        "cupy.linalg.svd": (1, "analog"),
        "cupyx.scipy.sparse.linalg.cg": (1, "analog"),
        "ndarray.dot": (1, "analog"),
    }
    assert symbols["cupy.where"].here == "plain PyTorch: torch.where"
    assert symbols["@"].where == ("program.py:5", "program.py:6")


def test_a_folder_is_read_whole_and_what_does_not_parse_is_said(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.cu").write_text("int main() { cublasSgemm(h); }\n")
    (tmp_path / "b.cpp").write_text("void f() { cufftExecC2C(p, a, b, CUFFT_FORWARD); } @@ ) ( int = ;\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "c.cu").write_text("int main() { cublasDgemm(h); }\n")
    (tmp_path / "broken.py").write_text("import cupy\ndef (\n")
    report = fit(tmp_path)
    assert {s.name: s.where for s in report.scan.symbols} == {
        "cublasSgemm": ("inner/a.cu:1",),
        "cufftExecC2C": ("b.cpp:1",),
    }
    assert any(words.startswith("b.cpp:1: ") for words in report.scan.skipped)
    assert any(words.startswith("broken.py: not read") for words in report.scan.skipped)
    assert [table.title for table in report.tables()] == ["Verdict", "Called in the source", "By library"]
    assert json.loads(json.dumps(report.to_dict()))["symbols"][0]["where"] == ["inner/a.cu:1"]


def test_an_empty_folder_is_an_error(tmp_path):
    with pytest.raises(ArgumentError, match="a folder with sources") as caught:
        fit(tmp_path)
    assert caught.value.got == str(tmp_path)


def test_deep_and_hostile_sources_end(tmp_path):
    deep = "int main() { return " + "(" * 3000 + "1" + ")" * 3000 + "; }\n"
    assert _symbols(tmp_path, deep) == {}
    assert _symbols(tmp_path, "#define N 1 << 99999999\n#define M N * N\nint main() { cufftPlan1d(&p, M, 0, N); }\n")
    (tmp_path / "bytes.cu").write_bytes(bytes(range(256)) * 40)
    assert scan(tmp_path / "bytes.cu").symbols == ()


def test_without_the_grammars_the_error_says_what_to_install(tmp_path):
    (tmp_path / "a.cu").write_text("int main() { cublasSgemm(h); }\n")
    # an import path on which the grammars are not to be found: as after a plain pip install trnsci
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name.startswith('tree_sitter'): raise ModuleNotFoundError(f'No module named {name!r}')\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from trnsci.cli import main\n"
        f"sys.exit(main(['fit', {str(tmp_path / 'a.cu')!r}]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "pip install '.[fit]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_functions_of_its_own_are_no_librarys(tmp_path):
    text = """#include "absent.cuh"
template <typename T> static inline T cuRand(int n) { return T(n); }
static void cublasXgemm(int n) { cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &a, A, n, B, n, &b, C, n); }
extern "C" void cudaShade(float *x);
int main() {
  cuRand<float>(3); cublasXgemm(4); cudaShade(x); cudaFree(p);
  shade<<<1, 32>>>(x);
}
"""
    (tmp_path / "program.cu").write_text(text)
    found = scan(tmp_path / "program.cu")
    assert {symbol.name: symbol.state for symbol in found.symbols} == {
        "shade": "write",
        "cublasSgemm": "analog",
        "cudaFree": "unneeded",
    }
    assert found.skipped == (
        "program.cu: what it includes is not here: absent.cuh",
        "program.cu:4: cudaShade is declared, and defined in no file that was read",
    )
    fortran = "program p\ncall cufft_copy(a)\ncontains\nsubroutine cufft_copy(a)\nend subroutine\nend program\n"
    assert _symbols(tmp_path, fortran, "program.f90") == {}


def test_a_call_that_a_macro_leaves_without_a_semicolon_is_one(tmp_path):
    text = "int main() {\n  CHECK( cudaMemcpy(a, b, n, kind) )\n  CHECK( cusparseSpMM(h, x, y) )\n  return 0;\n}\n"
    assert {"cudaMemcpy", "cusparseSpMM"} <= set(_symbols(tmp_path, text))


def test_what_cupy_adds_to_numpy_has_an_answer(tmp_path):
    symbols = _symbols(
        tmp_path,
        "import cupy as cp\nxp = cp.get_array_module(a)\nx = cp.array([1])\ny = cp.asnumpy(x)\n"
        "cp.testing.assert_allclose(x, x)\ncp.random.choice(5)\ncp.array_split(x, 2)\n"
        "k = cp.RawKernel(code, options=())\n",
        "program.py",
    )
    assert {name: symbol.state for name, symbol in symbols.items()} == {
        "cupy.array_split": "missing",
        "cupy.RawKernel:line 8": "write",
        "cupy.array": "torch",
        "cupy.asnumpy": "torch",
        "cupy.random.choice": "analog",
        "cupy.get_array_module": "unneeded",
        "cupy.testing.assert_allclose": "unneeded",
    }
