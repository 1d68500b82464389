"""What the first paper prints (PowerTrain, FGCS 2024), with the modes each figure was validated on. Text, not data."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.evaluate import plan
from benchmarks.evaluate.tables import SHIPPED

ALL_ORIN = "all 4,368 modes, profiled ones included"
OTHER_50 = "50 other random modes, 20 repeats"
REST_XAVIER = "the 950 modes of 1,000 that were not profiled"
ALL_NANO = "all 180 modes, profiled ones included"
NOT_NAMED = "not named for this experiment"
OURS = "ours alone"


@dataclass(frozen=True)
class Row:
    """One line of the paper's five scenarios: errors of time / power in %, and our table of it, if there is one."""

    scenario: str
    case: str
    transfer: str
    scratch: str
    validated: str
    target: str | None = None
    reference: str = SHIPPED


ROWS = (
    Row("1 same network or data", "ResNet on ImageNet → ResNet on GLD", "12.8 / –", "–", "100 modes"),
    Row("", "ResNet on ImageNet → MobileNet on ImageNet", "14.9 / –", "–", "100 modes"),
    Row("", "MobileNet on GLD → MobileNet on ImageNet", "11.7 / –", "–", "100 modes"),
    Row("", "MobileNet on GLD → ResNet on GLD", "12.9 / –", "–", "100 modes"),
    Row("2 unseen network and data", "ResNet → LSTM", "12.5 / 6.3", "12.3 / 9.1", OTHER_50, plan.LSTM),
    Row("", "ResNet → MobileNet", "14.5 / 5.6 (text: 15.7 / 5.2)", "about 22 / 10 (from its figures)", ALL_ORIN,
        plan.MOBILENET),
    Row("", "ResNet → YOLO", "11.5 / 4.9 (text: 11.7 / 4.9)", "–", ALL_ORIN, plan.YOLO),
    Row("", "ResNet → BERT", "15.6 / –", "15.1 / –", OTHER_50, plan.BERT),
    Row("3 board of another generation", "ResNet → ResNet on Xavier AGX", "12 / 11", "21 / 18", REST_XAVIER,
        plan.XAVIER[0]),
    Row("", "LSTM → ResNet on Xavier AGX", "–", "–", OURS, plan.XAVIER[0], plan.LSTM),
    Row("", "ResNet → MobileNet on Xavier AGX", "14 / 9", "–", REST_XAVIER, plan.XAVIER[1]),
    Row("4 board of the same generation", "ResNet → ResNet on Orin Nano", "7.85 / 5.96", "–", ALL_NANO, plan.NANO[0]),
    Row("", "LSTM → ResNet on Orin Nano", "–", "–", OURS, plan.NANO[0], plan.LSTM),
    Row("", "ResNet → MobileNet on Orin Nano", "8.98 / 4.72", "–", ALL_NANO, plan.NANO[1]),
    Row("5 unseen batch size", "ResNet/16 → ResNet/8", "10.8 / 6.9", "–", NOT_NAMED, plan.BATCHES[0]),
    Row("", "ResNet/16 → ResNet/32", "11.2 / 7.3", "–", NOT_NAMED, plan.BATCHES[1]),
    Row("", "LSTM/16 → ResNet/8", "–", "–", OURS, plan.BATCHES[0], plan.LSTM),
    Row("", "LSTM/16 → ResNet/32", "–", "–", OURS, plan.BATCHES[1], plan.LSTM),
    Row("", "ResNet/16 → MobileNet/8", "7–9.4 / 5.5–5.7", "–", NOT_NAMED, plan.BATCHES[2]),
    Row("", "ResNet/16 → MobileNet/16", "7–9.4 / 5.5–5.7", "–", NOT_NAMED, plan.MOBILENET),
    Row("", "ResNet/16 → MobileNet/32", "7–9.4 / 5.5–5.7", "–", NOT_NAMED, plan.BATCHES[3]),
    Row("not in the paper", "LSTM → ResNet", "–", "–", OURS, plan.RESNET, plan.LSTM),
    Row("", "ResNet training/16 → ResNet inference/1", "–", "–", OURS, plan.INFERENCE[0]),
    Row("", "ResNet training/16 → ResNet inference/32", "–", "–", OURS, plan.INFERENCE[1]),
    Row("", "ResNet training/16 → LSTM inference/1", "–", "–", OURS, plan.INFERENCE[2]),
    Row("", "ResNet training/16 → LSTM inference/32", "–", "–", OURS, plan.INFERENCE[3]),
)  # fmt: skip

# Fig. 6: (reference, target) → time / power; the diagonal is a network trained on all modes.
MATRIX = {
    (plan.MOBILENET, plan.MOBILENET): "8.1 / 3.6",
    (plan.MOBILENET, plan.RESNET): "15.0 / 8.0",
    (plan.MOBILENET, plan.YOLO): "11.8 / 5.0",
    (plan.RESNET, plan.MOBILENET): "14.5 / 5.6",
    (plan.RESNET, plan.RESNET): "9.3 / 4.1",
    (plan.RESNET, plan.YOLO): "11.5 / 4.9",
    (plan.YOLO, plan.MOBILENET): "17.0 / 9.7",
    (plan.YOLO, plan.RESNET): "19.8 / 12.9",
    (plan.YOLO, plan.YOLO): "9.7 / 4.8",
}

# §5.2, Fig. 12 and 13: (target, strategy) → median penalty over the budgets of 17–50 W, and A/L+1 where it is printed.
CHOICES = {
    (plan.LSTM, "powertrain"): "as `nn`, less scatter; A/L+1 < 20 %",
    (plan.LSTM, "random-pareto"): "12–28 % over all workloads; never over",
    (plan.RESNET, "powertrain"): "not reported: it is the reference",
    (plan.MOBILENET, "powertrain"): "0.7 %; A/L+1 25 %",
    (plan.MOBILENET, "nn"): "5 %",
    (plan.MOBILENET, "random-pareto"): "12–28 % over all workloads; never over",
}
