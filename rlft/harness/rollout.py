"""Collects rollouts: attempts each task several times with seeds of its own, in conversations side by side.

Every call of the engine takes all conversations that are ready, while the tools of the others run. Sampled tokens are
appended as they were sampled; only what the model reads from tools and environment is rendered and tokenised. The loss
mask is true for the sampled tokens alone.
"""

from __future__ import annotations

import queue
import time
from asyncio import Task as AsyncTask
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from rlft.config.environment import HarnessConfig
from rlft.config.rollout import EngineSettings
from rlft.config.section import Section
from rlft.engines.base import Engine, Generation, Sampling
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.faults import failure_of
from rlft.environments.contract.several import in_turn
from rlft.environments.workers.threads import WAITING
from rlft.errors import RlftError
from rlft.harness.attempt import Attempt, Examples, Live
from rlft.harness.chat.conversation import Chat, open_chat
from rlft.harness.dialogue import Playground
from rlft.harness.opening import Ground
from rlft.models.flops import sampling_costs, shape_of
from rlft.models.live import Policy
from rlft.outcome import Failure
from rlft.progress import Progress, silent
from rlft.types import Message, Rollout, Rollouts, Task, derive_seed

Played = tuple[list[Rollout], dict[str, float]]  # rollouts in the order of their attempts, and what was measured


class SamplingSettings(Section):
    """Says how attempts are sampled, and with which seed; see `rollout`, `evaluation` and `harness` in the config.

    `examples` are solved tasks that the model reads before each prompt, as only prompted controls do.
    """

    temperature: float
    max_completion_length: int
    seed: int
    batch_size: int = 256
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    engine: EngineSettings = EngineSettings()
    harness: HarnessConfig = HarnessConfig()
    examples: Examples | None = None

    @property
    def of_tokens(self) -> Sampling:
        """The settings by which an engine draws tokens."""
        return Sampling(self.temperature, self.max_completion_length, self.top_p, self.top_k, self.min_p)


class Player(Protocol):
    """Attempts tasks: a policy with the engine that samples from it, or a model behind an address."""

    def play(
        self,
        attempts: Sequence[Attempt],
        environment: BaseEnv,
        sampling: Sampling,
        *,
        environment_fingerprint: str,
        harness: HarnessConfig | None,
        examples: Examples | None,
        progress: Progress,
    ) -> Played:
        """Attempt every task; the model reads `examples` before each prompt."""
        ...


@dataclass(frozen=True, slots=True)
class PolicyPlayer:
    """Attempts tasks with the policy that `engine` has loaded."""

    policy: Policy
    engine: Engine

    def play(self, attempts: Sequence[Attempt], environment: BaseEnv, sampling: Sampling, **settings: Any) -> Played:
        """Attempt every task by `run_attempts`, and measure what sampling costs."""
        rows = run_attempts(attempts, environment, self.policy, self.engine, sampling, **settings)
        costs = sampling_costs(shape_of(self.policy.model), rows, shares_prompts=self.policy.shares_prompts)
        return rows, {**self.engine.metrics, **costs}


def collect_rollouts(
    tasks: Sequence[Task],
    environment: BaseEnv,
    player: Player,
    sampling: SamplingSettings,
    *,
    num_generations: int,
    round: int,
    label: str,
    environment_fingerprint: str = "",
    first_place: int = 0,
    progress: Progress = silent,
) -> Rollouts:
    """Attempt each task `num_generations` times with the policy or model of `player`.

    `label` (such as `train` or `evaluation`) and `round` are part of each rollout's id and seed. Evaluations of
    different policies under the same label and round draw the same random numbers, which makes them comparable.
    `environment_fingerprint` identifies the environment's code in each rollout. `first_place` is how many tasks were
    attempted in the round before these: a task's place is part of its rollouts' ids and seeds, too.
    """
    started = time.perf_counter()
    attempts = [
        Attempt(
            rollout_id=f"{label}-{round}-{place}-{task.id}-{sample}",
            task=task,
            sample=sample,
            round=round,
            seed=derive_seed(sampling.seed, label, round, place, task.id, sample),
        )
        for place, task in enumerate(tasks, first_place)
        for sample in range(num_generations)
    ]
    rows, measured = player.play(
        attempts,
        environment,
        sampling.of_tokens,
        environment_fingerprint=environment_fingerprint,
        harness=sampling.harness,
        examples=sampling.examples,
        progress=progress,
    )
    return Rollouts(rows=tuple(rows), seconds=time.perf_counter() - started, metrics=measured)


@dataclass
class Headway:
    """Reports how many rollouts are over, a number that never falls, and how many tokens were sampled.

    If rollouts have a single turn, each completion of the engine is one rollout that is over. If they may have several,
    nobody knows how many turns follow, so a rollout counts once its conversation has ended.
    """

    progress: Progress
    total: int
    multi_turn: bool
    tokens: int = 0  # sampled in calls of the engine that have returned
    over: float = 0.0  # rollouts, before the engine's present call

    def of_call(self, done: float, total: float | None, what: str, *, tokens: int | None = None, **_: Any) -> None:
        """Return the `Progress` that is handed to a call of the engine."""
        del total, what
        over = self.over if self.multi_turn else self.over + done
        self.progress(over, self.total, "rollouts", tokens=self.tokens + (tokens or 0))

    def note(self, over: int) -> None:
        """Report that so many rollouts are over; called between calls of the engine."""
        self.over = float(over)
        self.progress(self.over, self.total, "rollouts", tokens=self.tokens)


_Asked = tuple[Live, Coroutine[Any, Any, list[Message] | None]]
# Rollouts whose environment is asked by one message to the background thread, so that the tools of the first need not
# wait until the turns of all have been read.
_TOGETHER = 32
# Conversations that get ready at about the same time are sampled in one call of the engine: it waits until none has got
# ready for _QUIET_SECONDS, but no longer than _LONGEST_QUIET after the first.
_QUIET_SECONDS, _LONGEST_QUIET = 0.01, 0.2


def run_attempts(
    attempts: Sequence[Attempt],
    environment: BaseEnv,
    policy: Policy,
    engine: Engine,
    sampling: Sampling,
    *,
    environment_fingerprint: str,
    harness: HarnessConfig | None = None,
    examples: Examples | None = None,
    progress: Progress = silent,
) -> list[Rollout]:
    """Attempt every task, in conversations side by side, and return the rollouts in the order of `attempts`.

    The model reads `examples` before each prompt: they are among a rollout's token ids, and not among its messages.
    `sampling.max_completion_length` bounds a turn. A prompt that the model's context cannot hold is an error of its
    rollout, and so is an engine that did not answer or code of the environment that failed; a failing tool is a message
    to the model. Raises EnvironmentSetupError for tools that cannot be described, PolicyError for a chat
    template that rewrites earlier turns, and RlftError when the environment's code hangs and cannot be cancelled.
    Several environments have their turn one after the other.
    """
    limits = harness or HarnessConfig()

    def run(some: Sequence[Attempt], member: BaseEnv) -> list[Rollout]:
        with Ground(member, limits) as ground:
            playground = ground.open()
            tools, multi_turn = tuple(playground.tools.values()), playground.max_turns > 1
            chat = open_chat(policy.tokenizer, tools, tool_format=limits.tool_format, multi_turn=multi_turn)
            rows = [Live(attempt, ground.dialogue(playground, attempt.rollout_id, attempt.task)) for attempt in some]
            headway = Headway(progress, len(rows), multi_turn)
            headway.note(0)
            together = _Run(playground, chat, policy, engine, sampling, ground, headway)
            try:
                together.open(rows, examples)
                together.play(rows)
            except BaseException:
                together.give_up(rows)
                raise
            return [row.record(policy.identity, sampling.fingerprint, environment_fingerprint) for row in rows]

    return in_turn(attempts, lambda attempt: attempt.task, environment, run)


@dataclass
class _Run:
    """The state of one call of `run_attempts`: conversations that are sampled, and those whose environment is at work.

    `told` is the queue in which the background thread puts each conversation whose environment has answered, with the
    messages that the model reads then.
    """

    playground: Playground
    chat: Chat
    policy: Policy
    engine: Engine
    sampling: Sampling
    ground: Ground
    headway: Headway
    told: queue.SimpleQueue[tuple[Live, list[Message] | None]] = field(default_factory=queue.SimpleQueue)
    waiting: int = 0  # conversations whose environment is at work, each of which puts one answer into `told`

    def open(self, rows: Sequence[Live], examples: Examples | None) -> None:
        """Open all conversations and tokenise their prompts, after the examples; those that fail end here."""
        self._ask([(row, row.dialogue.open()) for row in rows])
        for row in self._all_asked():
            if self._failed(row):
                continue
            try:
                said = row.dialogue.messages
                row.token_ids = self.chat.prompt(examples.before(said) if examples else said)
            except Exception as error:
                row.end("error", failure_of("prompt", error))
                continue
            row.prompt_length = len(row.token_ids)
            if not self._has_room(row):
                why = f"{row.prompt_length} tokens do not fit the model's context of {self.policy.context_length}"
                row.end("error", Failure("prompt", why))

    def play(self, rows: Sequence[Live]) -> None:
        """Sample turns until every conversation is over, then close all of them."""
        ready = [row for row in rows if row.stop_reason is None]
        while ready or self.waiting:
            if ready:
                self._sample(ready)
            ready = self._collect(rows)
            self.headway.note(sum(row.stop_reason is not None for row in rows))
        self._ask([(row, row.dialogue.close()) for row in rows])
        for row in self._all_asked():
            if row.dialogue.error and row.error is None:
                row.end("error", row.dialogue.error)

    def give_up(self, rows: Sequence[Live]) -> None:
        """After an error: cancel what runs and close all conversations, unless the environment's code hangs."""
        if self.ground.thread.abandoned:
            return
        self.ground.thread.cancel_all()
        self._ask([(row, row.dialogue.close()) for row in rows])
        until = time.perf_counter() + self.playground.harness.tool_timeout_seconds
        with suppress(queue.Empty):
            for _ in range(self.waiting):
                self.told.get(timeout=max(until - time.perf_counter(), 0.0))

    def _all_asked(self) -> Iterator[Live]:
        """Wait for every environment that is at work, and yield the conversations as they come."""
        while self.waiting and (found := self._next(wait=True)):
            yield found[0]

    def _sample(self, ready: Sequence[Live]) -> None:
        """Sample one turn of each conversation, and hand each turn to its environment in the background."""
        seeds = [row.turn_seed() for row in ready]
        asked: list[_Asked] = []
        prompts = [row.token_ids for row in ready]
        for row, generation in zip(
            ready, self.engine.generate(prompts, self.sampling, seeds, self.headway.of_call), strict=True
        ):
            self.headway.tokens += len(generation.token_ids)
            row.sampled.append((len(row.token_ids), generation))
            opened = self.chat.opens_thought(row.token_ids)
            row.token_ids.extend(generation.token_ids.tolist())
            message, problems = self._read(generation, opened=opened)
            if generation.error is not None:
                row.dialogue.messages.append(message)
                row.end("error", generation.error)
            elif generation.stop_reason == "length":
                row.dialogue.messages.append({"role": "assistant", "content": self._text(generation, opened=opened)})
                row.end("length")
            else:
                asked.append((row, row.dialogue.answer(message, problems)))
            if len(asked) == _TOGETHER:
                self._ask(asked)
                asked = []
        self._ask(asked)

    def _read(self, generation: Generation, *, opened: bool) -> tuple[Message, Sequence[str]]:
        if not self.playground.tools:
            return {"role": "assistant", "content": self._text(generation, opened=opened)}, ()
        turn = self.chat.read(generation.token_ids.tolist(), opened=opened)
        return turn.message(), turn.problems

    def _text(self, generation: Generation, *, opened: bool) -> str:
        return self.chat.text(generation.token_ids.tolist(), opened=opened)

    def _collect(self, rows: Sequence[Live]) -> list[Live]:
        """Wait for a conversation that can go on and for those that get ready with it; return them in order of `rows`.

        With `harness.lockstep` it waits for all conversations.
        """
        ready: list[Live] = []
        until = 0.0  # set when the first is ready
        while self.waiting:
            lockstep = self.playground.harness.lockstep
            found = self._next(wait=not ready or lockstep, quiet=min(_QUIET_SECONDS, until - time.perf_counter()))
            if found is None:
                break
            row, told = found
            if self._goes_on(row, told):
                until = until if ready else time.perf_counter() + _LONGEST_QUIET
                ready.append(row)
        places = {id(row): place for place, row in enumerate(rows)}
        return sorted(ready, key=lambda row: places[id(row)])

    def _goes_on(self, row: Live, told: list[Message] | None) -> bool:
        """Append what the model reads next, and return whether it gets another turn."""
        if self._failed(row):
            return False
        if told is None:
            row.end("stop")
            return False
        try:
            row.token_ids.extend(self.chat.continuation(told, row.token_ids[-1]))
        except Exception as error:
            row.end("error", failure_of("render", error))
            return False
        harness = self.playground.harness
        spent = len(row.token_ids) - row.prompt_length
        in_time = time.perf_counter() - row.began < harness.timeout_seconds
        if not in_time or not self._has_room(row) or (harness.max_tokens is not None and spent >= harness.max_tokens):
            start, generation = row.sampled[-1]
            del row.token_ids[start + len(generation.token_ids) :]  # the model never read what followed its turn
            row.end("length")
            return False
        return True

    def _failed(self, row: Live) -> bool:
        """Return whether the dialogue has an error, which then ends the rollout."""
        if row.dialogue.error is not None and row.stop_reason is None:
            row.end("error", row.dialogue.error)
        return row.dialogue.error is not None

    def _has_room(self, row: Live) -> bool:
        context = self.policy.context_length
        return context is None or len(row.token_ids) < context

    def _ask(self, asked: Sequence[_Asked]) -> None:
        """Run a coroutine for each conversation in the background; its result is put into `told`."""

        def tell(place: int, done: AsyncTask[list[Message] | None]) -> None:
            row = asked[place][0]
            try:
                self.told.put((row, done.result()))
            # An error, a cancellation too, would be lost in this callback, and the rollout be waited for without end.
            except BaseException as error:
                row.dialogue.error = failure_of("harness", error)
                self.told.put((row, None))

        self.waiting += len(asked)
        self.ground.thread.start_all([coroutine for _, coroutine in asked], tell)

    def _next(self, *, wait: bool, quiet: float = 0.0) -> tuple[Live, list[Message] | None] | None:
        """Return the next conversation whose environment has answered, with what the model reads then.

        Unless it is to `wait`, it is `None` after `quiet` seconds without one. Raises RlftError if the environment's
        code hangs.
        """
        harness, where = self.playground.harness, type(self.playground.environment).__name__
        # A rollout's time, its last call of a tool, and the cancellation of that.
        longest = harness.timeout_seconds + 2 * harness.tool_timeout_seconds
        until = time.perf_counter() + longest
        while True:
            try:
                found = self.told.get(timeout=harness.tool_timeout_seconds if wait else max(quiet, 0.0))
            except queue.Empty:
                if not wait:
                    return None
                self.ground.thread.check(harness.tool_timeout_seconds, where)
                if time.perf_counter() > until:
                    raise RlftError(f"no answer within {longest:g} s", where=where, fix=WAITING) from None
                continue
            self.waiting -= 1
            self.ground.check()
            return found
