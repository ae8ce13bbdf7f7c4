import io
import os
import resource
import struct
import subprocess
import sys
import textwrap
import zipfile

import numpy as np
import pytest
import torch

import trnsparse as ts
from trnsci.errors import ArgumentError
from trnsparse.files import MAX_MEMBERS

GIB = 1 << 30


def header(shape, dtype="<f8"):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": dtype, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def member_of(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def small_members():
    matrix = ts.CSRMatrix.from_dense(torch.eye(3))
    return {
        "indptr": member_of(matrix.indptr.numpy()),
        "indices": member_of(matrix.indices.numpy()),
        "values": member_of(matrix.values.numpy()),
        "format": member_of(np.array("csr float32")),
        "shape": member_of(np.array([3, 3])),
    }


def write_members(path, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)


def write_bomb(path, name, nbytes):
    """Write an archive one member of which expands to ``nbytes`` zeros."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for other, data in small_members().items():
            if other != name:
                archive.writestr(f"{other}.npy", data)
        with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
            stream.write(header((nbytes // 8,)))
            for _ in range(nbytes >> 24):
                stream.write(bytes(1 << 24))


def peak_bytes(code, *arguments, address_space="-1"):
    """Run a program that prints; return what it printed and the most memory it held."""
    limit = f"import resource\nresource.setrlimit(resource.RLIMIT_AS, ({address_space},) * 2)\n"
    report = "\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)"
    whole = "import torch, trnsparse\n" + limit + textwrap.dedent(code) + report
    done = subprocess.run([sys.executable, "-c", whole, *arguments], capture_output=True, text=True, check=True)
    *lines, peak = done.stdout.splitlines()
    return lines, int(peak)


LOAD = """
    import sys
    from trnsci.errors import TrnError
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    try:
        trnsparse.load(sys.argv[1])
    except TrnError as error:
        print(type(error).__name__, error)
    print(before)
"""


@pytest.mark.slow
def test_an_archive_that_expands_a_thousandfold_is_refused_unread(tmp_path):
    for name in ("values", "shape", "stranger"):
        path = tmp_path / f"{name}.npz"
        write_bomb(path, name, 2 * GIB)
        assert path.stat().st_size < 4 << 20
        (said, before), peak = peak_bytes(LOAD, str(path))
        assert said.startswith("ArgumentError")
        assert "expand to" in said
        assert peak - int(before) < 64 << 20


@pytest.mark.slow
def test_a_matrix_larger_than_the_limit_of_memory_is_a_capacity_error(tmp_path):
    path = tmp_path / "large.npz"
    values = np.random.default_rng(1).integers(0, 255, 96 << 20, dtype=np.uint8)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive, archive.open("values.npy", "w") as stream:
        stream.write(header((values.size,), "|u1"))
        for _ in range(6):
            stream.write(values[: 16 << 20].data)
    room = f"int(open('/proc/self/statm').read().split()[0]) * {resource.getpagesize()} + {64 << 20}"
    (said, _), _ = peak_bytes(LOAD, str(path), address_space=room)
    assert said.startswith("CapacityError")


@pytest.mark.parametrize("claimed", [(10**12,), (2**40, 2**40), (-1,), (2, 2), (0,), (3, 10**9)], ids=str)
def test_a_header_that_claims_another_size_is_refused(claimed, tmp_path):
    members = small_members()
    members["values"] = header(claimed, "<f4") + bytes(12)
    write_members(tmp_path / "a.npz", members)
    with pytest.raises(ArgumentError, match=r"damaged"):
        ts.load(tmp_path / "a.npz")


@pytest.mark.parametrize(
    "shape", [[], [3], [3, 3, 3], [[3, 3]], [1.5, 3], [-1, 3], [2**62, 2**62], ["3", "3"]], ids=str
)
def test_shapes_that_are_none_are_refused(shape, tmp_path):
    members = small_members() | {"shape": member_of(np.array(shape))}
    write_members(tmp_path / "a.npz", members)
    with pytest.raises(ArgumentError):
        ts.load(tmp_path / "a.npz")


def test_members_that_are_many_twice_there_or_packed_otherwise_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    write_members(path, {str(i): member_of(np.zeros(1)) for i in range(MAX_MEMBERS + 1)})
    with pytest.raises(ArgumentError, match=f"{MAX_MEMBERS + 1} members"):
        ts.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("values.npy", member_of(np.zeros(1)))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("values.npy", member_of(np.zeros(1)))
    with pytest.raises(ArgumentError, match="2 members, 1 of them"):
        ts.load(path)
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        write_members(path, small_members(), method)
        with pytest.raises(ArgumentError, match="compressed by method"):
            ts.load(path)


@pytest.mark.parametrize("text", ["(" * 9000, "[" * 9000, "-" * 9000 + "1", "1+" * 4500 + "1", "{" * 100])
def test_a_nested_header_is_refused(text, tmp_path):
    data = text.encode() + b"\n"
    members = small_members() | {"values": b"\x93NUMPY\x01\x00" + struct.pack("<H", len(data)) + data}
    write_members(tmp_path / "a.npz", members)
    with pytest.raises(ArgumentError):
        ts.load(tmp_path / "a.npz")


def test_pipes_devices_and_folders_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(ArgumentError, match="no plain file"):
            ts.load(path)
    with pytest.raises(IsADirectoryError):
        ts.load(tmp_path)


def test_a_constant_matrix_that_shrinks_much_is_read(tmp_path):
    ones = torch.ones(500, 2000)
    ts.CSRMatrix.from_dense(ones).save(tmp_path / "ones.npz")
    assert torch.equal(ts.load(tmp_path / "ones.npz").to_dense(), ones)
