"""A launch file that is there already: what its plan costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from calc.errors import Refused
from calc.memory.stage_lengths import between_ends, dealt_pieces, modules_of, stage_lengths
from calc.memory.totals import most_needed, training_ranks
from calc.plan.answer import Plan
from calc.plan.export.launch import Division, Read
from calc.plan.objective import Objective, weight_of
from calc.plan.pieces import parts
from calc.plan.question import Question
from calc.spec import ModelSpec
from calc.time import predict
from calc.time.step.timed_run import timed_run

OF_ALL = ("optimizer", "precision_aware", "execution", "gradient_dtype", "fp8_recipe", "fp8_param_gather")
"""Fields of a Run that a file may say and no search changes."""


def question_of(question: Question, read: Read) -> Question:
    """The question that a launch file asks: its GPUs, sequences, length and formats in the place of what was said.

    Errors: Refused for modules that predict further tokens in another number than the model has.
    """
    modules = modules_of(question.spec)
    if read.division.further not in (0, modules):
        raise Refused("modules for further tokens", str(modules), read.division.further)
    gpus = question.gpus if read.gpus is None else (read.gpus,)
    recipe, sequences = read.words.get("recipe"), read.sequences
    said = {**question.words, **_of_all(read)}
    if sequences is None and read.each is not None:
        sequences = read.each * gpus[0]
    return replace(
        question,
        gpus=gpus,
        seq=int(read.words.get("seq", question.seq)),
        sequences=sequences or question.sequences,
        recipes=question.recipes if recipe is None else (recipe,),
        words={name: word for name, word in said.items() if word is not None},
    )


def _of_all(read: Read) -> dict[str, Any]:
    """What a file says that holds of every plan compared with its own: its modules, the optimizer, and what is
    compiled."""
    found: dict[str, Any] = {"mtp": True} if read.division.further else {}
    return found | {name: read.words[name] for name in OF_ALL if name in read.words}


def words_of(question: Question, read: Read) -> dict[str, Any]:
    """The words of a launch file's plan, for `plan_of`. Errors: Refused for pieces that do not make stages, and for a
    number of checkpointed layers that is no part of a piece's."""
    words = dict(read.words)
    if read.waiting not in (None, question.spec.n_layers - 1):
        words["offload_layers"] = read.waiting
    if words.get("pp", 1) > 1:
        words |= _divided(question.spec, words, read.division)
    if read.checkpointed:
        words["checkpoint_every"] = _every(question.spec, words, read.division, read.checkpointed)
    return words


def _divided(spec: ModelSpec, words: Mapping[str, Any], said: Division) -> dict[str, Any]:
    """Pieces of a stage, and layers of a file's stages where they are not those that a plan has of itself with so many
    modules for further tokens.

    Errors: Refused for another number of layers than the model's, and for pieces that do not make stages or that the
    tool does not make.
    """
    layers, pp = spec.n_layers, words["pp"]
    held = words.get("interleave", 1)
    if said.piece:
        pieces = -(-(layers + said.embedding + said.loss) // said.piece)
        if pieces % pp:
            raise Refused("layers of a piece of a stage", f"as many pieces as pp = {pp} divides", said.piece)
        held = pieces // pp
    if said.layout is not None:
        held, stages = said.layout.pieces, said.layout.stages
    elif said.first is not None or said.last is not None:
        stages = between_ends(layers, pp, said.first, said.last)
        if any(stage % held for stage in stages):
            raise Refused("layers of stages", f"multiples of {held} pieces", ",".join(map(str, stages)))
    else:
        ends = said.embedding + said.loss
        if said.even and (layers + ends) % (pp * held):
            raise Refused("layers of all stages", f"a multiple of {pp * held} pieces, unless they are laid out", layers)
        pieces = dealt_pieces(layers, pp * held, said.embedding, said.loss)
        stages = tuple(sum(pieces[stage::pp]) for stage in range(pp))
    if sum(stages) != layers:
        raise Refused("layers of all stages", str(layers), sum(stages))
    usual = stage_lengths(layers, pp, held, said.further)
    return {"interleave": held} | ({} if stages == usual else {"stages": stages})


def _every(spec: ModelSpec, words: Mapping[str, Any], said: Division, checkpointed: int) -> int:
    """Of how many layers one is checkpointed, where a file says how many of a piece are. Errors: Refused for a number
    that is no part of all pieces."""
    pieces = words.get("pp", 1) * words.get("interleave", 1)
    layers = spec.n_layers + said.embedding + said.loss
    if pieces > 1 and (layers % pieces or (said.layout is not None and "stages" in words)):
        raise Refused("checkpointed layers", "all, where pieces of stages are not alike", checkpointed)
    in_piece = layers // pieces
    if in_piece % checkpointed:
        raise Refused("checkpointed layers", f"a divisor of a piece's {in_piece:,}", checkpointed)
    return in_piece // checkpointed


def plan_of(question: Question, words: Mapping[str, Any], objective: Objective = "time") -> Plan:
    """One plan as it stands, timed and weighed; whether it fits is for the reader of its `room`.

    words: fields of a Run; dp follows from the GPUs and micro-batches from the sequences where they are not said.
    Errors: Refused for a plan that does not divide the model or the global batch.
    """
    (gpus,) = question.gpus
    described: dict[str, Any] = question.run_words() | dict(words) | {"gpus": gpus, "seq": question.seq}
    run = timed_run(question.spec, **described)
    if run.dp * run.cp == 1:
        run = run.changed(zero=0)  # which has nothing to divide, whatever a file says
    in_one = run.dp * run.batch
    if question.sequences % in_one:
        raise Refused("global batch", f"a multiple of dp × micro-batch = {in_one:,} sequences", question.sequences)
    steps = question.sequences // in_one
    if described.get("micro_batches", steps) != steps:
        expected = f"{steps:,}, which {question.sequences:,} sequences a step are over {in_one:,} at a time"
        raise Refused("micro-batches", expected, described["micro_batches"])
    run = run.changed(micro_batches=steps)
    needs = most_needed(training_ranks(question.spec, run))
    found = predict(question.spec, question.device, run)
    columns = {name: getattr(run, name) for name in ("tp", "pp", "cp", "ep", "interleave", "zero")}
    switched = {name: getattr(run, name) for name in ("checkpointing", "recompute", "schedule", "offload", "expert_tp")}
    return Plan(
        question=question,
        run=run,
        prediction=found,
        peak=int(needs.peak),
        reserved=int(needs.reserved),
        host=int(needs.host),
        host_at_most=int(needs.host_at_most),
        value=float(found.seconds * weight_of(question, objective, run.gpus)),
        on_front=False,
        parts=float(parts(columns, switched | {"sequence_parallel": run.tp == 1 or run.divides_sequence})),
    )
