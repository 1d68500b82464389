"""k-means over a stream: a loop that is no neural network and tells PowerTrain about its steps itself."""

import os
import random

import powertrain_sdk as powertrain

CENTRES = [(0.0, 0.0), (5.0, 1.0), (2.0, 6.0)]


def batch(rng, size):
    """Return points around the true centres."""
    return [(x + rng.gauss(0, 0.6), y + rng.gauss(0, 0.6)) for x, y in rng.choices(CENTRES, k=size)]


def nearest(means, point):
    """Return which mean a point belongs to."""
    return min(range(len(means)), key=lambda k: (means[k][0] - point[0]) ** 2 + (means[k][1] - point[1]) ** 2)


def main():
    """Move each mean towards its points, batch by batch."""
    rng = random.Random(0)
    size, epochs = powertrain.batch_size(512), int(os.environ.get("POWERTRAIN_EPOCHS", "10"))
    means, counts = [(-1.0, -1.0), (6.0, 0.0), (1.0, 7.0)], [1, 1, 1]
    for epoch in range(epochs):
        for _ in range(200):
            for x, y in batch(rng, size):
                k = nearest(means, (x, y))
                counts[k] += 1
                means[k] = (means[k][0] + (x - means[k][0]) / counts[k], means[k][1] + (y - means[k][1]) / counts[k])
            powertrain.step()
        powertrain.epoch()
        print(f"epoch {epoch + 1}: means {[(round(x, 2), round(y, 2)) for x, y in sorted(means)]}", flush=True)


if __name__ == "__main__":
    main()
