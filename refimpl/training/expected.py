"""Names of options in other frameworks, and the names to use here instead."""

OWN_LOOP = ("a loop of your own, refimpl.torch.Trainer, takes any optimizer and scheduler of torch.optim, and "
            "refimpl.jax.Trainer any of optax")
MEANT = {
    **dict.fromkeys(("lr", "base_lr"), "say learning_rate"),
    **dict.fromkeys(("betas", "eps", "momentum", "nesterov"),
                    "say it in optimizer_options, which takes PyTorch's names, too"),
    "amsgrad": OWN_LOOP,
    **dict.fromkeys(("params", "param_groups", "groups", "no_decay"),
                    'say it to the model, TorchModel(..., groups=[{"params": ..., "weight_decay": 0.0}, ...])'),
    **dict.fromkeys(("scheduler", "lr_scheduler", "lr_lambda"),
                    "say rate=... of Options: a name, a function of the step, or the scheduler"),
    **dict.fromkeys(("warmup_steps", "num_warmup_steps"), "say warmup"),
    **dict.fromkeys(("max_grad_norm", "gradient_clip_val", "clip_grad_norm"), "say clip_norm"),
    **dict.fromkeys(("epochs", "num_epochs", "max_epochs"), "say steps=epochs * data.steps_per_epoch"),
    **dict.fromkeys(("batch_size", "per_device_train_batch_size", "num_workers"),
                    "say it where the data are made, which know the global batch: TorchData, Examples"),
    **dict.fromkeys(("gradient_accumulation_steps", "accumulate_grad_batches"),
                    "give the data more microbatches: a rank computes them one after another"),
    **dict.fromkeys(("callbacks", "callback", "early_stopping", "patience"),
                    "give progress, a function of each step's metrics, which ends the training where it returns True"),
    **dict.fromkeys(("save_best", "save_best_only", "load_best_model_at_end"),
                    "say train(..., heldout, evaluate_every=N, keep_best=True): it is kept in the folder best"),
    **dict.fromkeys(("fp16", "bf16", "amp", "mixed_precision"), 'say precision, "fp16" or "bf16"; it is emulated'),
}
"""Name -> the remedy. Each of these names is refused before anything is done."""


def refuse_meant(asked):
    """Raise TypeError for the first name that belongs to another framework, with the name to use here. Local."""
    for name in asked:
        if name in MEANT:
            raise TypeError(f"{name} is unknown here: {MEANT[name]}")
