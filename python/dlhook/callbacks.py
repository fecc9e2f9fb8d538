"""Optional callbacks for training loops: epochs and steps, with the numbers that the trainer counts them by, as ranges in timelines
(``dlhook export``). Steps, validation and layers are told apart without them.

.. code-block:: python

    from dlhook import callbacks

    lightning.Trainer(callbacks=[callbacks.lightning()])
    transformers.Trainer(model, callbacks=[callbacks.transformers()])
    model.fit(x, y, callbacks=[callbacks.keras()])                        # Keras 3 on PyTorch

A range is a ``torch.profiler.record_function``: without dlhook it does next to nothing.
"""

from __future__ import annotations

import contextlib
from typing import Any


class _Ranges:
    """An epoch, and a step in it."""

    def __init__(self) -> None:
        import torch

        self._range = torch.profiler.record_function
        self._epoch, self._step = contextlib.ExitStack(), contextlib.ExitStack()

    def epoch(self, number: int) -> None:
        self.end_epoch()  # one that an exception or an early stop left open
        self._epoch.enter_context(self._range(f"epoch {number}"))

    def step(self, number: int) -> None:
        self._step.close()
        self._step.enter_context(self._range(f"step {number}"))

    def end_step(self) -> None:
        self._step.close()

    def end_epoch(self) -> None:
        self._step.close()
        self._epoch.close()


def lightning() -> Any:
    """A callback for a Trainer of Lightning (the package `lightning`, else `pytorch_lightning`). A step is a batch; its number is
    trainer.global_step."""
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback
    ranges = _Ranges()

    class Ranges(Callback):  # type: ignore
        def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
            ranges.epoch(trainer.current_epoch)

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            ranges.step(trainer.global_step)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            ranges.end_step()

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            ranges.end_epoch()

    return Ranges()


def transformers() -> Any:
    """A callback for a Trainer of Hugging Face. A step is an update of the weights; its number is state.global_step."""
    from transformers import TrainerCallback

    ranges = _Ranges()

    class Ranges(TrainerCallback):  # type: ignore
        def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            ranges.epoch(int(state.epoch or 0))

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            ranges.step(state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            ranges.end_step()

        def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            ranges.end_epoch()

    return Ranges()


def keras() -> Any:
    """A callback for `fit` of Keras 3 on PyTorch. A step is a batch; its number is that in the epoch, from 0, as Keras has it. A
    ValueError on other backends, whose annotations exist only while their own profiler runs."""
    from keras import backend, callbacks

    if backend.backend() != "torch":
        raise ValueError(f"callbacks.keras() needs Keras on PyTorch; this is Keras on {backend.backend()}, where ranges are not recorded")
    ranges = _Ranges()

    class Ranges(callbacks.Callback):  # type: ignore
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            ranges.epoch(epoch)

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            ranges.step(batch)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            ranges.end_step()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            ranges.end_epoch()

    return Ranges()
