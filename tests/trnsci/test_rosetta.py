"""Every symbol has one answer, every analog exists, every example runs and gives what stands beside it."""

import contextlib
import csv
import doctest
import html
import importlib
import io
import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import torch

from tests.together import together
from tools import rosetta_page
from trnsci import ArgumentError, distributed, rosetta
from trnsci.cli import main
from trnsci.rosetta import KINDS, LIBRARIES, PREAMBLE, STATUSES, expand, lookup, search

DATA = Path(rosetta.__file__).parent / "data" / "rosetta"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FAMILIES = rosetta.families()
EXAMPLES = sorted({(family.example, family.result) for family in FAMILIES if family.example})

# by heart, not from the data: what people look for first
WELL_KNOWN = re.findall(
    r"\w+",
    """
cublasCreate cublasCreate_v2 cublasSetStream_v2 cublasSgemm cublasDgemm_v2 cublasCgemm3m cublasHgemm cublasGemmEx
cublasZgemm_v2_64 cublasSgemmStridedBatched cublasGemmStridedBatchedEx cublasDgemmGroupedBatched cublasDtrsm_v2
cublasSaxpy_v2 cublasDznrm2 cublasIsamax_v2 cublasIzamin cublasDgetrfBatched cublasSmatinvBatched cublasCherkx
cublasLtMatmul cublasLtMatmulAlgoGetHeuristic cublasLtMatmulDescSetAttribute cublasXtDgemm cublasSetMathMode
cublasHandle_t cublasOperation_t CUBLAS_OP_T CUBLAS_STATUS_INVALID_VALUE CUBLASLT_EPILOGUE_GELU_BIAS CUDA_R_16BF
cufftPlan1d cufftPlanMany cufftMakePlan3d cufftExecC2C cufftExecD2Z cufftXtMakePlanMany cufftXtSetCallback cufftHandle
cufftXtExecDescriptorC2C CUFFT_INVERSE CUFFT_R2C cufftComplex cufftSetWorkArea cufftXtSetGPUs
curandCreateGenerator curandSetPseudoRandomGeneratorSeed curandGenerateUniformDouble curandGenerateLogNormal
curandGeneratePoisson curandSetQuasiRandomGeneratorDimensions curand_init curand_uniform curand_normal2_double
curand_Philox4x32_10 skipahead skipahead_sequence curandState curandStatePhilox4_32_10_t CURAND_RNG_PSEUDO_XORWOW
CURAND_RNG_QUASI_SCRAMBLED_SOBOL64 curand_mtgp32_single curandGetDirectionVectors32
cusolverDnCreate cusolverDnDpotrf cusolverDnSpotrf_bufferSize cusolverDnDgetrf cusolverDnCgeqrf cusolverDnZunmqr
cusolverDnDsyevd cusolverDnCheevjBatched cusolverDnDgesvd cusolverDnSgesvdaStridedBatched cusolverDnXgesvdr
cusolverDnXgeev cusolverDnDSgesv cusolverDnIRSXgels cusolverDnXsyevdx cusolverDnDsygvdx cusolverSpDcsrlsvchol
cusolverSpXcsrsymrcmHost cusolverRfRefactor cusolverMgPotrf CUSOLVER_EIG_MODE_VECTOR syevjInfo_t
cusparseCreate cusparseSpMM cusparseSpMV_bufferSize cusparseSDDMM cusparseSpGEMM_compute cusparseSpSV_solve
cusparseSpSM_analysis cusparseScsrmv cusparseDcsrmm2 cusparseDcsrsv2_solve cusparseDcsrilu02 cusparseScsric02
cusparseDgtsv2StridedBatch cusparseSbsrmm cusparseXcoo2csr cusparseDenseToSparse_convert cusparseCreateCsr
cusparseCreateBlockedEll cusparseDcsrgeam2 cusparseSpMatDescr_t CUSPARSE_OPERATION_TRANSPOSE csrsv2Info_t cusparseShybmv
cutensorCreate cutensorContract cutensorContraction cutensorCreateContraction cutensorCreatePlan cutensorReduce
cutensorPermute cutensorElementwiseTrinaryExecute cutensorEstimateWorkspaceSize cutensorMgContraction
cutensorInitContractionPlan cutensorContractTrinary CUTENSOR_OP_MAX CUTENSOR_COMPUTE_DESC_32F cutensorPlan_t
""",
)
COLUMNS = {"symbols", "kind", "removed", "status", "analog", "example", "result", "note"}
AT_LEAST = {"cublas": 2000, "cufft": 170, "curand": 150, "cusolver": 770, "cusparse": 870, "cutensor": 260}


def rows():
    for library in LIBRARIES:
        with (DATA / f"{library}.csv").open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                yield library, row


def test_no_symbol_is_listed_twice():
    counts = Counter(symbol for family in FAMILIES for symbol in family.symbols)
    assert [symbol for symbol, count in counts.items() if count > 1] == []


def test_the_well_known_symbols_are_there():
    for symbol in WELL_KNOWN:
        assert lookup(symbol) is rosetta.symbols()[symbol] is lookup(symbol.swapcase()), symbol


@together("library", LIBRARIES)
def test_the_lists_have_not_shrunk(library):
    assert rosetta.coverage(library).total >= AT_LEAST[library]


def test_every_row_is_whole():
    for library, row in rows():
        where = f"{library}: {row['symbols'][:60]}"
        assert None not in row.values(), where
        assert set(row) == COLUMNS, where
        assert row["kind"] in KINDS, where
        assert row["status"] in STATUSES, where
        assert row["removed"] in ("", "yes"), where
        assert all(re.fullmatch(r"[\w{},]+", pattern) for pattern in row["symbols"].split()), where
        if row["status"] in ("analog", "torch"):
            assert row["analog"], where
            assert row["example"], where
        else:
            assert len(row["note"].split()) > 2, f"{where}: a reason is a sentence"
        assert row["note"] == "" or row["note"].endswith("."), where
        assert row["example"] or not row["result"], where


def test_symbols_stand_with_their_library():
    others = {"cublas": r"CUDA_[RC]_|cudaDataType", "curand": "skipahead", "cufft": "NVFFT_", "cutensor": "$^"}
    others["cusolver"] = r"(csr(chol|lu|qr)|gesvdj|syevj)Info|cudaLibMg|CUDALIBMG"
    others["cusparse"] = r"(csr|bsr|prune)\w*Info"
    for symbol, family in rosetta.symbols().items():
        assert re.match(f"(?i:{family.library})|{others[family.library]}", symbol), symbol


def test_every_analog_exists_and_is_public():
    for name in sorted({name for family in FAMILIES for name in family.analog}):
        package, *path = name.split(".")
        thing = importlib.import_module(package)
        assert package in ("torch", "trnsci", *(f"trn{library[2:]}" for library in LIBRARIES)), name
        if package != "torch":
            module, first = (thing.distributed, path[1]) if path[0] == "distributed" else (thing, path[0])
            assert first in (*module.__all__, "__version__"), f"{name} is not public"
        for part in path:
            assert hasattr(thing, part), f"{name} does not exist"
            thing = getattr(thing, part)


def test_examples_call_what_they_are_examples_of():
    for family in FAMILIES:
        names = [name.replace("trnsci.distributed", "distributed") for name in family.analog]
        functions = [name for name in names if name[:5] != "torch" and name.split(".")[-1].islower()]
        if family.status == "analog" and functions:
            called = re.search(rf"\b({'|'.join(map(re.escape, functions))})\b", family.example)
            assert called, f"{family.patterns[0]}: {family.example} calls none of {functions}"


def words(name):
    """The words of a name, by capitals and underscores."""
    return [word.lower() for word in re.findall(r"[A-Z0-9]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]


def test_what_is_not_covered_is_nothing_that_the_packages_export():
    exported = {}
    for package in ("trnblas", "trnfft", "trnrand", "trnsolver", "trnsparse", "trntensor"):
        module = importlib.import_module(package)
        exported |= {f"{package}.{name}": words(name) for name in module.__all__}
    offenders = []
    for family in FAMILIES:
        for symbol in family.symbols if family.status == "missing" else ():
            own = words(symbol)
            same = [name for name, parts in exported.items() if len(parts) > 1 and set(parts) <= set(own)]
            offenders += [f"{symbol} is not covered, but there is {name}" for name in same]
    assert offenders == []


def flat(value):
    return [leaf for part in value for leaf in flat(part)] if isinstance(value, (tuple, list)) else [value]


def same(got, wanted):
    assert len(flat(got)) == len(flat(wanted))
    for one, other in zip(flat(got), flat(wanted), strict=True):
        if isinstance(other, torch.Tensor):
            # the same operation in the same dtype; how accurate it is, each library's own tests say
            torch.testing.assert_close(one, other)
        else:
            assert one == other


@pytest.fixture(scope="module")
def preamble():
    return compile(PREAMBLE, "preamble", "exec")


@pytest.fixture
def _alone():
    """Examples on spread arrays start a mesh of one rank; nobody else is to find it."""
    yield
    if torch.distributed.is_initialized():
        distributed.leave()


@pytest.mark.usefixtures("_alone")
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_example_runs_and_gives_what_stands_beside_it(library, preamble):
    families = [family for family in FAMILIES if family.library == library and family.example]
    for example, result in sorted({(family.example, family.result) for family in families}):
        try:
            runs(example, result, preamble)
        except Exception as error:
            error.add_note(f"in the example {example}")
            raise


def runs(example, result, preamble):
    names = {}
    exec(preamble, names)
    assert "\n" not in example
    raising = re.fullmatch(r"with contextlib.suppress\(([\w.]+)\): (.*)", example)
    # what a package that may be missing computes runs where it is there
    if raising and not raising[1].endswith("BackendUnavailable"):
        with pytest.raises(eval(raising[1], names)):
            exec(raising[2], names)
    try:
        code = compile(example, example, "eval")
    except SyntaxError:
        code = compile(example, example, "exec")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        got = eval(code, names)
    assert out.getvalue() or "print(" not in example
    left, _, right = result.rpartition(" = ")
    if result:
        same(eval(left, names) if left else got, eval(right, names))


def test_most_examples_say_what_they_give():
    told = [family for family in FAMILIES if family.status == "analog" and family.kind == "function"]
    assert sum(bool(family.result) for family in told) > 0.75 * len(told)


@pytest.mark.slow
@pytest.mark.usefixtures("_alone")
def test_definitions_are_enough_to_run_an_example():
    for example, result in EXAMPLES:
        names = {}
        exec("\n".join(rosetta.definitions(example, result)), names)
        with contextlib.redirect_stdout(io.StringIO()):
            exec(example, names)
            exec(result.rpartition(" = ")[2], names)


def test_coverage_counts_the_data():
    counts = Counter()
    for library, row in rows():
        for pattern in row["symbols"].split():
            parts = re.findall(r"\{([^}]*)\}", pattern)
            size = 1
            for part in parts:
                size *= part.count(",") + 1
            counts[library, row["kind"], row["status"]] += size
    for library in LIBRARIES:
        for kind in KINDS:
            found = rosetta.coverage(library, kind)
            wanted = {status: counts[library, kind, status] for status in STATUSES}
            assert {status: getattr(found, status) for status in STATUSES} == wanted
            if found.total:
                assert found.covered == pytest.approx(1 - wanted["missing"] / sum(wanted.values()))
    assert rosetta.coverage().total == sum(counts.values()) == len(rosetta.symbols())


def test_the_docstrings_are_right():
    assert doctest.testmod(rosetta) == (0, 5)


def test_patterns_expand_as_a_shell_would():
    assert expand("cufftPlan1d") == ["cufftPlan1d"]
    assert expand("a{b,c}{,d}e") == ["abe", "abde", "ace", "acde"]


def test_a_miss_names_the_nearest():
    with pytest.raises(ArgumentError, match="Nearest: cublasSgemm") as caught:
        lookup("cublasSgmm")
    assert (caught.value.op, caught.value.argument, caught.value.got) == ("rosetta", "symbol", "cublasSgmm")
    with pytest.raises(ArgumentError, match="Nearest: none; trnsci rosetta lists the libraries"):
        lookup("?")


def test_search_puts_the_best_first():
    assert [(hit.symbol, hit.how) for hit in search("cufftExecC2C")] == [("cufftExecC2C", "exact")]
    ranks = [rosetta.HOW.index(hit.how) for hit in search("cusolverDnSpotr")]
    assert ranks == sorted(ranks)
    assert search("dgemm")[0].symbol == "cublasDgemm"
    assert search("cholesky_solve")[0].how == "analog"
    assert search("cusparseScsrmvv")[0] == ("cusparseScsrmv", lookup("cusparseScsrmv"), "near")
    assert {hit.family.library for hit in search("gemm", "cusparse")} == {"cusparse"}
    assert search("?") == []


def run(capsys, *words):
    status = main(["rosetta", *words])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_the_command_shows_the_coverage(capsys):
    status, out, _ = run(capsys)
    assert status == 0
    for library in LIBRARIES:
        functions = rosetta.coverage(library, *rosetta.FUNCTIONS)
        line = next(line for line in out.splitlines() if line.split()[:1] == [LIBRARIES[library]])
        assert line.split()[1:7] == [
            str(functions.total), str(functions.analog), str(functions.torch), str(functions.unneeded),
            str(functions.missing), f"{functions.covered:.1%}",
        ]  # fmt: skip


def test_the_command_answers_for_one_symbol(capsys):
    status, out, _ = run(capsys, "cublassgemm")
    assert status == 0
    assert out.startswith("cublasSgemm: cuBLAS function\n")
    assert "example  trnblas.gemm(1.0, a, b)" in out
    assert "a, b, c = torch.randn(3, 4, 4, dtype=real)" in out
    assert "see also cublasSgemmEx" in out
    assert "removed from CUDA" in run(capsys, "cusparseScsrmm")[1]
    assert "nothing to call" in run(capsys, "cublasCreate_v2")[1]
    assert "not covered" in run(capsys, "cublasXtSetCpuRatio")[1]
    assert "device function" in run(capsys, "curand_uniform")[1]


def test_the_command_shows_several_as_a_table(capsys):
    status, out, _ = run(capsys, "potrf")
    assert status == 0
    assert re.search(r"cusolverDnSpotrf and 4 more +trnsolver.cholesky +trnsolver.cholesky\(spd\)", out)
    assert re.search(r"\d+ more families; a longer name or --library shows fewer.", run(capsys, "gemm")[1])
    assert "cublas" not in run(capsys, "gemm", "--library", "cusparse")[1]


def test_the_command_helps_after_a_miss(capsys):
    status, out, _ = run(capsys, "cublasSgmm")
    assert status == 0
    assert out.startswith("No symbol is like cublasSgmm; nearest:")
    assert "cublasSgemm " in out
    status, out, err = run(capsys, "qqqqqqqq")
    assert (status, out) == (1, "")
    assert "symbol is 'qqqqqqqq', expected a symbol of cuBLAS, cuFFT" in err


def test_the_command_lists_a_library_and_what_it_lacks(capsys):
    _, out, _ = run(capsys, "--library", "cufft")
    assert len(out.splitlines()) == 2 + sum(family.library == "cufft" for family in FAMILIES)
    _, out, _ = run(capsys, "--coverage", "--library", "cublas")
    assert "cublasXtSetCpu{Ratio,Routine}" in out
    assert "cuFFT" not in out
    for family in FAMILIES:
        assert (family.note in out) or family.library != "cublas" or family.status != "missing"


def test_the_command_speaks_json(capsys):
    found = json.loads(run(capsys, "cublasDgemm", "--json")[1])
    assert found["query"] == "cublasDgemm"
    hit = found["hits"][0]
    assert (hit["symbol"], hit["match"], hit["analog"], hit["status"]) == (
        "cublasDgemm",
        "exact",
        ["trnblas.gemm"],
        "analog",
    )
    assert hit["needs"] == rosetta.definitions(hit["example"], hit["result"])
    counts = json.loads(run(capsys, "--json")[1])["coverage"]
    assert counts["cufft"]["function"]["symbols"] == rosetta.coverage("cufft", "function").total
    listed = json.loads(run(capsys, "--json", "--library", "curand")[1])["families"]
    assert len(listed) == sum(family.library == "curand" for family in FAMILIES)
    missing = json.loads(run(capsys, "--json", "--coverage")[1])["missing"]
    assert len(missing) == sum(family.status == "missing" for family in FAMILIES)


def test_the_page_is_up_to_date():
    written = rosetta_page.PAGE.read_text(encoding="utf-8")
    assert written == rosetta_page.page(), "the data changed: python -m tools.rosetta_page"
    for library in LIBRARIES:
        everything = rosetta.coverage(library)
        assert f"| {everything.total} | {everything.covered:.1%} |" in written


PROBE = """<script>
const ask = text => {
  const query = document.getElementById("rs-query");
  query.value = text;
  query.dispatchEvent(new Event("input"));
  const rows = [...document.querySelectorAll("#rs-table tbody tr:not([hidden])")].map(row => row.innerText);
  return {rows, count: document.getElementById("rs-count").textContent};
};
const root = document.documentElement;
const seen = {wide: 0, width: root.clientWidth};
for (const text of ["", "cublasSgemm_v2", "POTRF", "cu", "cublasSgmmm"]) {
  seen[text] = ask(text);
  seen.wide = Math.max(seen.wide, root.scrollWidth - root.clientWidth);
}
const made = document.createElement("pre");
made.id = "probe";
made.textContent = JSON.stringify(seen);
top.document.body.append(made);
</script>"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
@pytest.mark.slow
@pytest.mark.parametrize("width", [1300, 390])
def test_the_page_searches_in_a_real_browser(width, tmp_path):
    text = rosetta_page.page()
    raw = text[text.index("<style>") : text.index("</script>")]
    inner = html.escape(f"<!doctype html><meta charset=utf-8>{raw}</script>{PROBE}")
    page = tmp_path / "rosetta.html"
    # a frame, because a browser's window has a smallest width that no phone knows of
    page.write_text(
        f'<meta charset=utf-8><iframe width="{width}" height="900" srcdoc="{inner}"></iframe>', encoding="utf-8"
    )
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command = [BROWSER, *options, "--virtual-time-budget=4000", "--window-size=1400,1000", "--dump-dom", page.as_uri()]
    made = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    seen = json.loads(html.unescape(re.search(r'<pre id="probe">(.*?)</pre>', made, re.S)[1]))
    assert width - 30 < seen["width"] <= width
    total = len(rosetta.symbols())
    assert seen[""] == {"rows": [], "count": f"{total} symbols. Type one, or choose a library."}
    assert "trnblas.gemm(1.0, a, b)" in seen["cublasSgemm_v2"]["rows"][0]
    assert "cublasSgemm_v2" in seen["cublasSgemm_v2"]["rows"][0]
    assert "trnsolver.cholesky(spd)" in seen["POTRF"]["rows"][0]
    assert seen["cublasSgmmm"]["rows"] == []
    assert "nearest: cublasSgemm" in seen["cublasSgmmm"]["count"]
    assert len(seen["cu"]["rows"]) == 40
    assert "Show all" in seen["cu"]["count"]
    assert seen["wide"] == 0, "wider than the window"
