import numpy as np
from refimpl import Examples, Options, Uniform, Variable, aggregate_rows, train

class Ratings:
    """Rating of an item by a user = user row · item row + bias; squared error."""
    variables = [Variable("users", (1000, 8), sparse=True, initial=Uniform(0.5)),
                 Variable("items", (500, 8), sparse=True, initial=Uniform(0.5)),
                 Variable("bias", (1,))]

    def rows_needed(self, batch):
        return {"users": np.unique(batch.inputs[:, 0]), "items": np.unique(batch.inputs[:, 1])}

    def loss_and_gradients(self, dense, rows, batch):
        needed, (user, item) = self.rows_needed(batch), batch.inputs.T
        u = rows["users"][np.searchsorted(needed["users"], user)]
        v = rows["items"][np.searchsorted(needed["items"], item)]
        error = (u * v).sum(axis=1) + dense["bias"] - batch.targets
        slope = (2 * error / batch.normaliser).astype("float32")[:, None]
        return float((error**2).sum()) / batch.normaliser, {
            "users": aggregate_rows(user, slope * v), "items": aggregate_rows(item, slope * u),
            "bias": slope.sum(axis=0)}

def draw(microbatches, size):
    rng = np.random.default_rng(0)
    pairs = np.stack([rng.integers(0, 1000, 20_000), rng.integers(0, 500, 20_000)], axis=1)
    taste = rng.standard_normal((1500, 2))
    ratings = (taste[pairs[:, 0]] * taste[1000 + pairs[:, 1]]).sum(axis=1).astype("float32")
    return Examples(pairs, ratings, microbatches, size)

if __name__ == "__main__":
    result = train(Ratings(), draw(8, 64), options=Options(steps=400, optimizer="adam", learning_rate=0.03))
    if result.rank == 0:
        print(result.loss, result.parameters_sha256)
