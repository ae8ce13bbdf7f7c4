"""Which suites there are, where their tests come from, and what of them is small enough for the simulator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests of one package.

    Attributes:
        package: the distribution whose installation has them, or whose sdist does.
        tests: modules or folders, as ``pytest --pyargs`` takes them; with ``sdist`` paths inside the sdist.
        sdist: the tests are not installed with the package.
        commit: the tests are in a repository, ``package`` its address, at this commit.
        options: more arguments of pytest.
        settings: more variables of the environment.
        choose: a choice of tests, as ``pytest -k`` takes it; all by default.
        small: the choice for the simulator.
        fast: whether it is small enough for the slow tests of this repository.
    """

    package: str
    tests: tuple[str, ...]
    sdist: bool = False
    commit: str = ""
    options: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    choose: str = ""
    small: str = ""
    fast: bool = False


def _modules(package: str, names: str) -> tuple[str, ...]:
    return tuple(f"{package}.tests.test_{name}" for name in names.split())


SUITES = {
    "numpy.fft": Suite("numpy", ("numpy.fft.tests",), small="TestFFT1D and not prime", fast=True),
    "numpy.linalg": Suite(
        "numpy", ("numpy.linalg.tests",), small="TestSolve or TestInv or TestEigh or TestSVD or TestQR"
    ),
    "scipy.linalg": Suite(
        "scipy",
        _modules("scipy.linalg", "basic decomp decomp_cholesky decomp_lu decomp_polar matfuncs solvers batch"),
        # allocates 2 GB
        choose="not nofegfault",
        small="TestSolve or TestInv or TestCholesky",
    ),
    "scipy.fft": Suite(
        "scipy",
        _modules("scipy.fft", "basic real_transforms helper multithreading"),
        small="TestFFT and not extended",
    ),
    "scipy.sparse.linalg": Suite(
        "scipy",
        _modules("scipy.sparse.linalg._isolve", "iterative lsqr lsmr minres gcrotmk lgmres")
        + _modules("scipy.sparse.linalg._dsolve", "linsolve")
        + _modules("scipy.sparse.linalg._eigen.arpack", "arpack")
        + _modules("scipy.sparse.linalg._eigen.lobpcg", "lobpcg")
        + _modules("scipy.sparse.linalg._eigen", "svds")
        + _modules("scipy.sparse.linalg", "expm_multiply norm matfuncs interface"),
        small="test_iterative",
    ),
    "scipy.signal": Suite("scipy", _modules("scipy.signal", "spectral short_time_fft czt"), small="TestSTFT"),
    "torch.op_db": Suite("torch", (str(HERE / "test_op_db.py"),), small="mm or cholesky or fft_fft or solve"),
    "array-api-tests": Suite(
        "https://github.com/data-apis/array-api-tests",
        ("array_api_tests/test_fft.py", "array_api_tests/test_linalg.py"),
        commit="55fcc60179efa2680ddd6cd926ddf17b83530e2b",
        # the same examples in both runs
        options=(
            *("-p", "pytest_metadata.plugin", "-p", "pytest_jsonreport.plugin"),
            *("--derandomize", "--disable-deadline", "--max-examples=20"),
        ),
        settings=(("ARRAY_API_TESTS_MODULE", "array_api_compat.torch"),),
        small="test_fft or test_rfft or cholesky or solve",
    ),
    "opt_einsum": Suite("opt_einsum", ("opt_einsum.tests",), small="test_contract", fast=True),
    "linear_operator": Suite("linear_operator", ("test/operators", "test/functions"), sdist=True, small="dense_linear"),
    "gpytorch": Suite("gpytorch", ("test/examples",), sdist=True, small="simple_gp_regression"),
    "scikit-learn": Suite(
        "scikit-learn",
        ("sklearn.decomposition.tests", "sklearn.linear_model.tests", "sklearn.gaussian_process.tests"),
        small="test_pca or test_gpr",
    ),
    "statsmodels": Suite("statsmodels", ("statsmodels.regression.tests",), small="test_regression"),
    "pyscf": Suite("pyscf", ("pyscf/mp/test", "pyscf/scf/test/test_rhf.py"), sdist=True, small="test_mp2"),
    "tensorly": Suite(
        "tensorly", ("tensorly.decomposition.tests", "tensorly.tests", "tensorly.regression.tests"), small="test_tucker"
    ),
}
