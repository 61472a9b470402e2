"""`inspect` against the least that could be done: norms by numpy and one matrix product of a 20,000-row sample; and its peak memory.

Claims (`--full`): distribution, geometry and three factors of 1,000,000 x 384 vectors in at most 2.5x the time of one
`np.linalg.norm` and one 20,000 x 20,000 product of sampled rows; 10,000,000 x 384 from a file in less than 2 GiB. The default
sizes are small, for a look in two minutes.

The name is not inspect.py, which would hide the standard library's module from every script in this folder.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
GIB = 1 << 30
FULL_ROWS, FULL_MAPPED = 1_000_000, 10_000_000


def run_case(case: str, **options: int | str) -> dict:
    command = [sys.executable, str(HERE / "inspection_case.py"), case]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    print(" ".join(command[2:]), file=sys.stderr, flush=True)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(options: argparse.Namespace) -> dict:
    pairs = run_case("pairs", rows=options.rows, width=options.width, rounds=options.rounds)
    ratios = [ours / peer for ours, peer in zip(pairs["seconds"]["ours"], pairs["seconds"]["peer"], strict=True)]
    # What neither side can go below: the vectors read once and the products that our sample takes, at this machine's rates.
    floor = 4.0 * options.rows * options.width / pairs["copy_bytes"] * 2.0 + pairs["flops"] / pairs["gemm_flops"]
    peak = run_case("peak", rows=options.mapped, width=options.width, folder=options.folder)
    return {
        "rows": options.rows,
        "mapped_rows": options.mapped,
        "width": options.width,
        "wall_ratio": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios), "rounds": len(ratios)},
        "best_seconds": {name: min(values) for name, values in pairs["seconds"].items()},
        "floor_seconds": floor,
        "gemm_gflops": pairs["gemm_flops"] / 1e9,
        "copy_gb_per_second": pairs["copy_bytes"] / 1e9,
        "peak_gib": peak["peak_bytes"] / GIB,
        "mapped_gib": peak["vector_bytes"] / GIB,
        "peak_seconds": peak["seconds"],
    }


def claims(result: dict, *, full: bool) -> list[dict]:
    """The two claims; only at the full size are their bounds judged."""
    ratio, best, floor = result["wall_ratio"], result["best_seconds"], result["floor_seconds"]
    peak = result["peak_gib"]
    return [
        {
            "claim": f"inspect with three factors, against np.linalg.norm and one product of a 20,000-row sample: "
            f"{result['rows']:,} x {result['width']}",
            "unit": "x",
            "bound": 2.5,
            "holds": ratio["median"] <= 2.5 if full else None,
            "note": f"{best['ours'] / floor:.1f}x the floor (products at {result['gemm_gflops']:.0f} GFLOP/s, "
            f"copies at {result['copy_gb_per_second']:.1f} GB/s), the peer {best['peer'] / floor:.1f}x",
            **ratio,
        },
        {
            "claim": f"peak memory of inspect on a file of {result['mapped_rows']:,} x {result['width']}",
            "unit": "GiB",
            "bound": 2.0,
            "rounds": 1,
            "median": peak,
            "min": peak,
            "max": peak,
            "holds": peak < 2.0 if full else None,
            "note": f"the file has {result['mapped_gib']:.2f} GiB; a fresh process, libraries included",
        },
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--mapped", type=int, default=300_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", default="", help="where the large file is written; empty: the system's temporary folder")
    parser.add_argument(
        "--full", action="store_true", help="1,000,000 rows in memory and 10,000,000 in a file (15 GB), the sizes of the claims"
    )
    parser.add_argument("--out", type=Path, default=HERE / "results" / "inspection.json")
    options = parser.parse_args()
    if options.full:
        options.rows, options.mapped = FULL_ROWS, FULL_MAPPED
    result = measure(options)
    threads, load = os.environ.get("OMP_NUM_THREADS", "all"), os.getloadavg()[0]
    result["machine"] = (
        f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, {threads} threads, load {load:.1f} at the end"
    )
    result["claims"] = claims(result, full=(options.rows, options.mapped) == (FULL_ROWS, FULL_MAPPED))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
