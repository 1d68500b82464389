"""A real arm64 kernel under QEMU with a board's knobs: builds it, boots it, and runs programs inside."""
