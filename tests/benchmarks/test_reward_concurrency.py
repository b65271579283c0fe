"""The benchmark of scores side by side measures every way, and none of them is slow."""

from benchmarks.reward_concurrency import compare


def test_every_way_is_measured_and_takes_about_what_it_must():
    # 24 scores of 0.1 s, 8 at once: 0.3 s, and not 2.4. The share above that is fixed, so the bound is wider than 1.2.
    found = compare(24, 0.1, 8)
    assert list(found) == [
        "async", "async, first use of processes", "async, processes",
        "threads", "threads, first use of processes", "threads, processes",
    ]  # fmt: skip
    assert all(each["ratio"] > 0.99 for each in found.values())
    assert found["async"]["ratio"] < 4
    assert found["threads"]["ratio"] < 4
