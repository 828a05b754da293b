"""`experiments --launch`: a launch file for every planned training, each with the plan that is predicted fastest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from calc.errors import Refused
from calc.optimum.shapes import Shape
from calc.output.progress import Progress
from calc.plan.export.launch import Launch
from calc.plan.export.registry import tool
from calc.plan.planning import answer
from calc.spec.clusters import load_cluster
from calc.workers.workers import HERE


class Launches:
    """Where trainings are to run, and by which tool. Errors: Refused for what there is not, before anything is run."""

    def __init__(self, folder: str, cluster: str | None, gpus: int | None, name: str | None, seq: int) -> None:
        for field, value in (("--cluster", cluster), ("--gpus", gpus), ("--as", name)):
            if value is None:
                raise Refused(field, "a value beside --launch", "none")
        self.folder = Path(folder)
        if self.folder.exists():
            raise Refused("--launch", "a folder that is not there yet", folder)
        self.tool, self.cluster, self.gpus, self.seq = tool(str(name)), load_cluster(str(cluster)), gpus or 1, seq

    def write(self, rows: Sequence[dict[str, Any]], models: Mapping[float, Shape]) -> Iterator[str]:
        """A file a training, FOLDER/RUN.TOOL, and the hours that it is predicted to take in its rows; what to note.

        Of rows that are points of one training the longest is launched.
        """
        longest = {row["run"]: row for row in rows}  # rows come cheapest first
        progress = Progress()
        written = {name: self._planned(row, models[row["params"]], progress) for name, row in longest.items()}
        progress.close()
        self.folder.mkdir(parents=True)
        for name, (text, seconds) in written.items():
            (self.folder / f"{name}.{self.tool.name}").write_text(text)
            for row in rows:
                if row["run"] == name:
                    row["hours"] = float(f"{seconds * row['steps'] / 3600:.4g}")
        hours = sum(float(row["hours"]) for row in longest.values())
        what = f"{len(written)} launch files of {self.tool.name} {self.tool.version}"
        yield f"{self.folder}: {what}; {hours:.3g} hours of {self.gpus} GPUs of {self.cluster.name}, predicted"

    def _planned(self, row: Mapping[str, Any], model: Shape, progress: Progress) -> tuple[str, float]:
        """The launch file of one training, and the seconds of its step. Errors: Refused where no plan fits."""
        sequences = row["batch_tokens"] // self.seq
        question = self.tool.question(model.spec, self.cluster, self.gpus, self.seq, sequences, model=model.spec.name)
        found = answer([question], "time", 1, progress, HERE)
        if not found.plans:
            raise Refused("--gpus", f"GPUs on which {row['run']} ({model.spec.name}) has a plan", self.gpus)
        best = found.plans[0]
        return self.tool.write(Launch(best.question, best.run)), float(best.seconds)
