"""The machine's own resources: chassis and sensors, system and manager, and where the profile is rich its GPUs and power supplies."""

from __future__ import annotations

from collections.abc import Callable

from emulators.bmc.machine import Machine, Sensor
from emulators.bmc.messages import Body
from emulators.bmc.reports import power_state
from emulators.bmc.resource import OK, ROOT, Maker, collection, link, links, resource
from emulators.bmc.times import stamp
from emulators.state import GpuState

MANAGER = f"{ROOT}/Managers/bmc"
_BANKS = 5952  # of one HBM stack's remapper, as a healthy GB300 shows them


class Hardware:
    """Resources of one machine."""

    def __init__(self, machine: Machine, *, name: str, uuid: str, now_ns: Callable[[], int]) -> None:
        self.firmware = "1.0.0"
        self.ntp_servers = ["ntp1.example.com", "ntp2.example.com"]
        self._machine = machine
        self._name = name
        self._uuid = uuid
        self._now_ns = now_ns

    def get(self, path: str) -> Body | None:
        """Make a resource; None if it is none of the machine's."""
        maker = self._makers().get(path)
        if maker is not None:
            return maker()
        if "/Sensors/" in path:
            return next((self._sensor(sensor) for sensor in self._machine.sensors() if sensor.path == path), None)
        return self._rich(path) if self._machine.profile.has_rich_tree else None

    def _makers(self) -> dict[str, Maker]:
        machine = self._machine
        chassis_paths = machine.chassis_paths()
        makers: dict[str, Maker] = {
            f"{ROOT}/Chassis": lambda: collection(f"{ROOT}/Chassis", "Chassis", "Chassis Collection", chassis_paths),
            f"{ROOT}/Systems": lambda: collection(f"{ROOT}/Systems", "ComputerSystem", "Systems", [machine.system]),
            f"{ROOT}/Managers": lambda: collection(f"{ROOT}/Managers", "Manager", "Managers", [MANAGER]),
            machine.system: self._system,
            MANAGER: self._manager,
            f"{MANAGER}/NetworkProtocol": self._network,
        }
        for path in chassis_paths:
            makers[path] = lambda path=path: self._chassis(path)  # type: ignore[misc]  # mypy does not type defaults of lambdas
            makers[f"{path}/Sensors"] = lambda path=path: self._sensors(path)  # type: ignore[misc]
        return makers

    def _chassis(self, path: str) -> Body:
        is_node = path == self._machine.chassis
        body = resource(path, "Chassis", path.rpartition("/")[2], ChassisType="RackMount" if is_node else "Module", Status=OK)
        body |= {"SerialNumber": self._machine.read_state()[0].serial} if is_node else {}
        body |= {"Sensors": link(f"{path}/Sensors")}
        if is_node and self._machine.profile.has_rich_tree:
            body["PowerSubsystem"] = link(f"{path}/PowerSubsystem")
        return body | {"Links": {"ComputerSystems": links([self._machine.system]), "ManagedBy": links([MANAGER])}}

    def _sensors(self, chassis: str) -> Body:
        path = f"{chassis}/Sensors"
        return collection(path, "Sensor", "Sensors", (s.path for s in self._machine.sensors() if s.path.startswith(path + "/")))

    def _sensor(self, sensor: Sensor) -> Body:
        body = resource(
            sensor.path, "Sensor", sensor.id.replace("_", " "), ReadingType=sensor.reading_type, ReadingUnits=sensor.units,
            PhysicalContext=sensor.context, Reading=sensor.value, Status=OK if sensor.is_present else {"State": "Absent"},
        )  # fmt: skip
        return body | ({"ReadingBasis": sensor.basis} if sensor.basis else {})

    def _system(self) -> Body:
        machine = self._machine
        body = resource(
            machine.system, "ComputerSystem", "System", SystemType="Physical", SerialNumber=machine.read_state()[0].serial,
            PowerState=power_state(machine), Status=OK,
            Links={"Chassis": links([machine.chassis]), "ManagedBy": links([MANAGER])},
        )  # fmt: skip
        if machine.profile.has_rich_tree:
            body |= {name: link(f"{machine.system}/{name}") for name in ("Processors", "Memory", "LogServices")}
        return body

    def _manager(self) -> Body:
        profile, machine = self._machine.profile, self._machine
        return resource(
            MANAGER, "Manager", "BMC", ManagerType="BMC", FirmwareVersion=self.firmware, Manufacturer=profile.vendor,
            Model=profile.product, ServiceEntryPointUUID=self._uuid, UUID=self._uuid, NetworkProtocol=link(f"{MANAGER}/NetworkProtocol"),
            DateTime=stamp(self._now_ns()), DateTimeLocalOffset="+00:00", Status=OK,
            Links={"ManagerForServers": links([machine.system]), "ManagerForChassis": links(machine.chassis_paths())},
        )  # fmt: skip

    def _network(self) -> Body:
        return resource(
            f"{MANAGER}/NetworkProtocol", "ManagerNetworkProtocol", "Manager Network Protocol",
            HTTPS={"ProtocolEnabled": True, "Port": 443}, HTTP={"ProtocolEnabled": False, "Port": 80},
            NTP={"ProtocolEnabled": True, "NTPServers": list(self.ntp_servers)}, FQDN=f"{self._name}.bmc.example.com",
            HostName=self._name, Status=OK,
        )  # fmt: skip

    def _rich(self, path: str) -> Body | None:
        machine = self._machine
        supplies = f"{machine.chassis}/PowerSubsystem/PowerSupplies"
        if path == f"{machine.chassis}/PowerSubsystem":
            return resource(path, "PowerSubsystem", "Power Subsystem", PowerSupplies=link(supplies), Status=OK)
        if path == supplies:
            count = len(machine.read_state()[0].psu_is_present)
            return collection(path, "PowerSupply", "Power Supplies", (f"{supplies}/PSU_{number}" for number in range(count)))
        if path.startswith(f"{supplies}/PSU_"):
            return self._supply(path)
        gpus = [gpu for gpu in machine.read_state()[1] if not gpu.is_hidden]
        if path == f"{machine.system}/Processors":
            return collection(path, "Processor", "Processors", (machine.processor(gpu.gpu_index) for gpu in gpus))
        if path == f"{machine.system}/Memory":
            return collection(path, "Memory", "Memory", (machine.memory(gpu.gpu_index) for gpu in gpus))
        found = [body for gpu in gpus if (body := self._of_gpu(path, gpu)) is not None]
        return found[0] if found else None

    def _supply(self, path: str) -> Body | None:
        number = path.rpartition("_")[2]
        present = self._machine.read_state()[0].psu_is_present
        if not number.isdigit() or int(number) >= len(present):
            return None
        return resource(path, "PowerSupply", f"PSU {number}", Status=OK if present[int(number)] else {"State": "Absent"})

    def _of_gpu(self, path: str, gpu: GpuState) -> Body | None:
        processor, memory = self._machine.processor(gpu.gpu_index), self._machine.memory(gpu.gpu_index)
        if path == processor:
            return resource(
                path, "Processor", gpu.gpu_model, ProcessorType="GPU", Model=gpu.gpu_model, SerialNumber=gpu.serial,
                UUID=gpu.gpu_uuid.removeprefix("GPU-"), Metrics=link(f"{path}/ProcessorMetrics"), Status=OK,
                MemorySummary={"ECCModeEnabled": gpu.ecc_mode},
            )  # fmt: skip
        if path == f"{processor}/ProcessorMetrics":
            nvidia: Body = {"SRAMECCErrorThresholdExceeded": gpu.sram_threshold_exceeded}
            return resource(path, "ProcessorMetrics", "Processor Metrics", Oem={"Nvidia": nvidia})
        if path == memory:
            nvidia = {"RowRemappingPending": gpu.remap_pending, "RowRemappingFailed": gpu.remap_failure}
            return resource(path, "Memory", "GPU memory", MemoryType="DRAM", Metrics=link(f"{path}/MemoryMetrics"), Oem={"Nvidia": nvidia})
        if path == f"{memory}/MemoryMetrics":
            low, none = gpu.remap_banks_low, gpu.remap_banks_none
            banks = {"Max": _BANKS - low - none, "High": 0, "Partial": 0, "Low": low, "No": none}
            remapping: Body = {f"{level}AvailabilityBankCount": count for level, count in banks.items()}
            return resource(path, "MemoryMetrics", "Memory Metrics", Oem={"Nvidia": {"RowRemapping": remapping}})
        return None
