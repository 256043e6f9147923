"""The rows of a batch, one after the other: each becomes one record, whatever happens in it."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from specctl.cli.batch_watch import Watch
from specctl.data import Row
from specctl.engine.query import Policy, answer
from specctl.engine.serial import SerialDriver
from specctl.errors import ModelError
from specctl.journal import Results, result_to_dict
from specctl.render.text import clean
from specctl.types import Failure, Query, Result

UNEXPECTED = "model.error"


@dataclass(frozen=True, slots=True)
class Batch:
    """What every row is run with; `watch` is the driver's sink."""

    driver: SerialDriver
    policy: Policy
    watch: Watch

    def run(self, rows: Iterable[Row], results: Results) -> bool:
        """Write one record per row that has none, as it is known; False if interrupted.

        A row under way is left at an interrupt and not written. What makes all rows fail (a model
        that cannot be loaded, a full disk, results of another input) is raised.
        """
        interrupts = self.watch.interrupts
        recorded = 0
        try:
            for row in results.todo(rows, self.watch.state.keep):
                with interrupts.held():
                    record = self.record(row)
                    if len(infos := self.driver.pair.infos()) > recorded:
                        results.record_models(infos)
                        recorded = len(infos)
                    results.write(record)
                    self.watch.end(record)
        except KeyboardInterrupt:
            return False
        return True

    def record(self, row: Row) -> dict[str, Any]:
        """The row's record, naming the models that took part in it."""
        extra: Mapping[str, Any] | None = row.extra or None
        if row.query is None:
            return result_to_dict(row.failed(), {}, extra)
        result = self._result(row.query)
        infos = self.driver.pair.infos()
        used = {role: infos[role] for role in self.watch.seen.roles}
        return result_to_dict(result, used, extra)

    def _result(self, query: Query) -> Result:
        try:
            return self.driver.run(query, answer(query, self.policy))
        except Exception as error:
            if self.watch.state.loading is not None:
                raise
            if os.environ.get("SPECCTL_DEBUG"):
                traceback.print_exc()
            failure = _failure(error)
        self.driver.pair.forget()  # it may have been memory that was short
        return self.watch.seen.broken_off(query, failure)


def _failure(error: Exception) -> Failure:
    """What goes into the record of a row that raised."""
    if isinstance(error, ModelError):
        return Failure(error.code or UNEXPECTED, error.message)
    told = [type(error).__name__, *str(error).splitlines()[:1]]
    return Failure(UNEXPECTED, clean(": ".join(told)))
