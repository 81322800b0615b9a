"""What surrounds an instance: the host's name, how many others there are."""

import pytest
from instances import Instance, can_unshare


class TestManyOthers:
    pytestmark = pytest.mark.usefixtures("alone")

    def test_recover_leaves_none_out(self, instance: Instance) -> None:
        names = [f"{instance.name}-{i}" for i in range(66)]
        for name in names:
            instance.check(instance.ctl("start", "-c", instance.config, "-i", name), 0)
        instance.kill_daemons(len(names))
        instance.recover(0, "66 instances recovered")
        instance.nothing_is_left()


class TestHostName:
    def test_that_changed_keeps_no_instance_from_recovery(self, instance: Instance) -> None:
        if not can_unshare("-u"):
            pytest.skip("no UTS namespaces here")
        renamed = ("unshare", "-u", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh")
        instance.crash("promised")
        done = instance.ctl("recover", "-c", instance.config, before=renamed)
        instance.check(done, 0, "1 instance recovered")
        assert instance.read() == "promised"
        instance.nothing_is_left()
