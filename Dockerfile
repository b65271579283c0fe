# docker build --tag REGISTRY/rlft:0.1.0 . && docker push REGISTRY/rlft:0.1.0
# The image of pods: all packages of a run, and no code, which ZenML hands to each run. `RLFT_IMAGE=REGISTRY/rlft:0.1.0`
# before `rlft run --stack` uses it (docs/guide/kubernetes.md). It has not been built: tests/test_dockerfile.py reads it.
FROM python:3.11.14-slim-bookworm

# A compiler for pycosat, which has no wheel, and for kernels that torch and vLLM compile; bubblewrap is the sandbox.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends bubblewrap g++ gcc git libc6-dev \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 1000 rlft \
 && install --directory --owner=rlft /app /opt/rlft

USER 1000
WORKDIR /app
# hadolint ignore=DL3064
ENV PATH=/opt/rlft/bin:$PATH \
    VIRTUAL_ENV=/opt/rlft \
    ZENML_CONFIG_PATH=/app/.zenconfig \
    ZENML_ENABLE_REPO_INIT_WARNINGS=False \
    ZENML_ANALYTICS_OPT_IN=false \
    ZENML_PARAMETER_SIZE_THRESHOLD=65536 \
    MLFLOW_DISABLE_TELEMETRY=true \
    TOKENIZERS_PARALLELISM=false \
    AUTO_OPEN_DASHBOARD=false \
    MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR=false \
    MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT=true

# A layer for what changes seldom and is large; what an edit of the other files makes anew is small.
COPY --chown=rlft requirements/base.txt /opt/rlft/requirements/
RUN python -m venv /opt/rlft \
 && pip install --no-cache-dir uv==0.13.8 \
 && uv pip install --no-cache -r /opt/rlft/requirements/base.txt vllm==0.32.0
COPY --chown=rlft requirements/ray.txt requirements/team.txt requirements/kubernetes.txt /opt/rlft/requirements/
RUN uv pip install --no-cache -r /opt/rlft/requirements/ray.txt \
      -r /opt/rlft/requirements/team.txt -r /opt/rlft/requirements/kubernetes.txt
