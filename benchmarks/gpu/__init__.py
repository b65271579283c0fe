"""What could not be measured without a GPU, each part on its own: `python -m benchmarks.gpu`."""
