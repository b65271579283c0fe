"""The policies that stay in memory from step to step, also where a round is trained while the next one is sampled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from zenml.models import ArtifactVersionResponse

from rlft.policy import Policy, PolicyFolder, load_policy
from rlft.policy.live import holds_reference
from rlft.policy.origin import choose_device
from rlft.policy.twin import twin_of
from rlft.progress import Progress

WARM_POLICIES = 2  # the one in training, and the reference or the one that is evaluated


@dataclass(slots=True)
class Beside:
    """One round is trained in a thread of its own while the next is sampled in that of the pipeline's body.

    `progress` takes the reports of the training. If it is `here`, in this process, it changes a `twin` of the policy
    that is sampled from, and `reference` is the artifact of the policy that it reads for a KL. Until `may_train` is set
    it waits then, and what it needs is loaded before that: nothing may be loaded while it computes or a policy samples,
    as libraries then change torch's settings for all threads. `has_begun` is set once its step is running.
    """

    progress: Progress
    reference: ArtifactVersionResponse | None = None
    here: bool = True
    twin: Policy | None = None
    may_train: threading.Event = field(default_factory=threading.Event)
    has_begun: threading.Event = field(default_factory=threading.Event)


class LivePolicies:
    """Holds the policies of the last steps, by their content."""

    def __init__(self) -> None:
        self._policies: dict[str, Policy] = {}  # by content hash, the least recently used first
        self._beside: Beside | None = None

    def of(self, folder: PolicyFolder, device: str) -> Policy:
        """Return the live policy with the content of `folder`, loaded if need be; it must not be changed."""
        policy = self._take(folder, device)
        self.keep(policy)
        return policy

    def borrow(self, folder: PolicyFolder, device: str) -> Policy:
        """Return it like `of`, for a step that changes it: it is not kept here until `keep` brings it back.

        While the next round is sampled it is a twin, and whoever samples goes on with the policy itself.
        """
        if (beside := self._beside) is not None:
            beside.may_train.wait()
            if (twin := beside.twin) is not None:
                beside.twin = None
                return twin
        return self._take(folder, device)

    def keep(self, policy: Policy) -> None:
        """Keep a policy for later steps. It must be in the state that was last saved or loaded."""
        self._policies[policy.metadata.content_hash] = policy
        while len(self._policies) > WARM_POLICIES:
            self._policies.pop(next(iter(self._policies)))

    @contextmanager
    def beside(
        self, progress: Progress, reference: ArtifactVersionResponse | None = None, *, here: bool = True
    ) -> Iterator[Beside]:
        """Expect a round to be trained and the next one to be sampled at the same time, while the context is open.

        `here` says whether this process trains, and not trainers elsewhere, which have the policy themselves.
        """
        self._beside = beside = Beside(progress, reference, here)
        try:
            yield beside
        finally:
            beside.may_train.set()
            self._beside = None

    @property
    def training_progress(self) -> Progress | None:
        """What takes the reports of a training that goes on beside sampling; `None` if none does."""
        return None if (beside := self._beside) is None else beside.progress

    def note_training(self) -> None:
        """Note that the step that trains is running, if it does beside sampling."""
        if (beside := self._beside) is not None:
            beside.has_begun.set()

    def let_train(self, live: Policy, device: str) -> None:
        """If a round is to be trained beside the sampling from `live`, give it what it needs, and let it begin.

        To be called before anything is sampled, for which a model is set up otherwise.
        """
        if (beside := self._beside) is None or not beside.here:
            return
        beside.twin = twin_of(live)
        self._policies.pop(live.metadata.content_hash, None)
        if beside.reference is not None and beside.reference.content_hash not in self._policies:
            reference: PolicyFolder = beside.reference.load()
            if not holds_reference(live.metadata, reference.metadata):
                self.of(reference, device)
        beside.may_train.set()

    def clear(self) -> None:
        """Give back their memory."""
        self._policies.clear()

    def _take(self, folder: PolicyFolder, device: str) -> Policy:
        return self._policies.pop(folder.metadata.content_hash, None) or load_policy(folder, choose_device(device))
