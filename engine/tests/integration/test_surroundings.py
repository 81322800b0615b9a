"""What surrounds an instance: how many others there are."""

import pytest
from instances import Instance


class TestManyOthers:
    pytestmark = pytest.mark.usefixtures("alone")

    def test_recover_leaves_none_out(self, instance: Instance) -> None:
        names = [f"{instance.name}-{i}" for i in range(66)]
        for name in names:
            instance.check(instance.ctl("start", "-c", instance.config, "-i", name), 0)
        instance.kill_daemons(len(names))
        instance.recover(0, "66 instances recovered")
        instance.nothing_is_left()
