"""The oracle's program: Flink's jar, our Java sources compiled against it, and a class archive for a fast start.

All of it is in the cache and never imported by Python. A folder exists completely or not at all. The folder of a
compiled program is named by a digest of its sources and Flink's version, so changed sources are compiled anew.
`rehearse` runs a script that loads the classes that scripts need; each line is answered by one `quiet`. `find_oracle`
returns the command that starts it, or its error names the command to type; `provide_oracle` prepares it, without root,
and changes nothing that is in place.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from subprocess import TimeoutExpired

from harness.system.child import answer_of, run_to_end
from harness.system.clock import monotonic_us
from harness.system.errors import WorldError
from harness.world.settings import Places, WorldSettings
from harness.world.setup.provision import Provision, ProvisionStep, timed_step

SETUP = "floodmark setup --oracle"
FLINK_VERSION = "2.3.0"
FLINKS: Mapping[str, str] = {"1.20": "1.20.5", "2.0": "2.0.2", "2.3": FLINK_VERSION}
"""The lines of Flink that can be served, each with its release; `sut serve flink` is the last one."""
PACKAGE = "apache-flink-libraries"
INSTALL_LIMIT_S = 900.0


def oracle_folder(places: Places) -> Path:
    """The oracle's folder in the cache."""
    return places.root / "oracle"


def flink_jar(places: Places, *, version: str = FLINK_VERSION) -> Path:
    """The path of Flink's jar once it is installed."""
    return _home(places, version) / "pyflink" / "lib" / f"flink-dist-{version}.jar"


def install_flink(
    places: Places, *, scratch: Path, say: Callable[[str], None], version: str = FLINK_VERSION
) -> Path:
    """Install Flink's package with pip, first into `scratch` (on the cache's disk); returns the jar."""
    say(f"installing {PACKAGE} {version} from the package index (a third of a gigabyte)")
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        fresh = Path(name) / "flink"
        run_to_end(
            [
                *(sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"),
                *("--no-deps", "--no-compile", "--target", str(fresh), f"{PACKAGE}=={version}"),
            ],
            what=f"installing {PACKAGE} {version}",
            limit_s=INSTALL_LIMIT_S,
            fix="see that pip is in this Python's environment and that the package index can be reached",
        )
        adopt(fresh, _home(places, version))
    jar = flink_jar(places, version=version)
    if not jar.exists():
        raise WorldError(
            f"{PACKAGE} {version} was installed without {jar.name}",
            fix=f"remove {_home(places, version)} and run floodmark setup --oracle again",
        )
    return jar


def adopt(fresh: Path, home: Path) -> None:
    """Move a finished folder to its final name; if another run of setup was first, its equal folder stays."""
    home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        fresh.rename(home)
    except OSError:
        if not home.is_dir():
            raise


def _home(places: Places, version: str) -> Path:
    return oracle_folder(places) / f"flink-{version}"


_RETRY = '{"strategy":"exponential","max_retries":2,"initial_ms":5,"max_ms":50,"multiplier":2,"on":["empty","error"]}'

REHEARSAL = f"""\
{{"cmd":"hello","protocol":1}}
{{"cmd":"nonsense"}}
{{"cmd":"open","now":0,"restore":null,"config":{{"mode":"ordered","capacity":1,"timeout_ms":100}}}}
{{"cmd":"element","value":"a","ts":1}}
{{"cmd":"watermark","ts":1}}
{{"cmd":"snapshot","id":1}}
{{"cmd":"complete","call":1,"results":["A",{{"n":1.5}}]}}
{{"cmd":"marker","id":1}}
{{"cmd":"element","value":[2],"ts":null,"hold":true}}
{{"cmd":"advance","to":100}}
{{"cmd":"stats"}}
{{"cmd":"close"}}
{{"cmd":"open","now":0,"restore":null,"config":{{"mode":"unordered","capacity":9,"timeout_ms":100,\
"on_timeout":{{"results":[]}},"profile":"flink","retry":{_RETRY}}}}}
{{"cmd":"element","value":1,"ts":1}}
{{"cmd":"watermark","ts":1}}
{{"cmd":"element","value":2,"ts":2}}
{{"cmd":"fail","call":1,"error":"no"}}
{{"cmd":"complete","call":2,"results":[]}}
{{"cmd":"advance","to":10}}
{{"cmd":"snapshot","id":2}}
{{"cmd":"notify","id":2,"outcome":"complete"}}
{{"cmd":"advance","to":100}}
{{"cmd":"end_input"}}
{{"cmd":"close"}}
"""


MAIN = "floodmark.oracle.FlinkSut"
SEVERAL_INPUTS = "floodmark.oracle.SeveralInputs"
"""The second main class: answers scripts of watermarks and statuses of several inputs."""
REDISTRIBUTION = "floodmark.oracle.Redistribution"
"""The third main class: answers what each subtask gets after a rescale."""
_OF_THE_PRESENT = {SEVERAL_INPUTS.rpartition(".")[2], REDISTRIBUTION.rpartition(".")[2]}
JAVA_MIN = 17
COMPILE_LIMIT_S = 300.0
REHEARSAL_LIMIT_S = 120.0
SOURCES = Path(__file__).parent
OPTIONS = (
    # Scripts are short and many, so a fast start matters more than speed after a long run.
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xms64m",
    "-Xmx768m",
    # No file in /tmp for each start, and no output of the JVM among the events.
    "-XX:-UsePerfData",
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
    # Flink keeps unfinished records in identity hash sets, whose order is arbitrary. One hash code for all objects
    # gives the same order each time: that of arrival, while few records wait. So one script has one transcript.
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:hashCode=2",
)
JDK_FIX = "install a Java compiler of version 17 or later (Debian: `apt-get install default-jdk-headless`)"


def find_java(settings: WorldSettings) -> Path:
    """The `java` on the PATH."""
    found = shutil.which("java", path=settings.path)
    if found is None:
        raise WorldError(
            "the oracle needs Java, and there is no java on the PATH",
            fix="install it (Debian: `apt-get install default-jdk-headless`), then floodmark setup --oracle",
        )
    return Path(found)


def sources(version: str = FLINK_VERSION) -> list[Path]:
    """Our Java files, sorted by name; around an older Flink only what serves its operator."""
    ours = sorted(SOURCES.glob("*.java"))
    if version == FLINK_VERSION:
        return ours
    lacking = sorted((SOURCES / "older").glob("*.java")) if version.startswith("1.") else []
    return [source for source in ours if source.stem not in _OF_THE_PRESENT] + lacking


def program_jar(settings: WorldSettings, *, version: str = FLINK_VERSION) -> Path:
    """The path of the program compiled from the present sources."""
    digest = hashlib.sha256(version.encode())
    for source in sources(version):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return oracle_folder(settings.places) / f"program-{digest.hexdigest()[:16]}" / "oracle.jar"


def archive_of(program: Path) -> Path:
    """The class data archive next to a program; halves the start time. A program also runs without it."""
    return program.with_suffix(".jsa")


def compile_program(
    settings: WorldSettings, *, scratch: Path, say: Callable[[str], None], version: str = FLINK_VERSION
) -> Path:
    """Compile the sources with `javac`; returns the program's jar. `scratch` must be on the cache's disk."""
    javac = shutil.which("javac", path=settings.path)
    if javac is None:
        raise WorldError("the oracle cannot be compiled: there is no javac on the PATH", fix=JDK_FIX)
    say(f"compiling {len(sources(version))} Java files with {javac}")
    target = program_jar(settings, version=version)
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        classes, fresh = Path(name) / "classes", Path(name) / "program"
        fresh.mkdir()
        run_to_end(
            [
                *(javac, "-nowarn", "-proc:none", "-encoding", "UTF-8", "-d", str(classes)),
                *("-cp", str(flink_jar(settings.places, version=version)), *map(str, sources(version))),
            ],
            what="compiling the oracle",
            limit_s=COMPILE_LIMIT_S,
            fix=JDK_FIX,
        )
        with zipfile.ZipFile(
            fresh / target.name, "w"
        ) as jar:  # class data archives accept classes from jars only
            for file in sorted(classes.rglob("*.class")):
                jar.write(file, file.relative_to(classes))
        adopt(fresh, target.parent)
    return target


def rehearse(
    settings: WorldSettings,
    program: Path,
    *,
    scratch: Path,
    say: Callable[[str], None],
    version: str = FLINK_VERSION,
) -> None:
    """Run the program once through a script, which checks it and creates the archive of the classes that it used."""
    say("rehearsing")
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        archive = Path(name) / "oracle.jsa"
        command = _command(settings, program, (f"-XX:ArchiveClassesAtExit={archive}",), MAIN, version)
        try:
            done = answer_of(command, limit_s=REHEARSAL_LIMIT_S, says=REHEARSAL)
        except TimeoutExpired as error:
            raise WorldError(
                f"the oracle's rehearsal did not end within {REHEARSAL_LIMIT_S:g} s",
                fix="free the machine's processor, then floodmark setup --oracle",
            ) from error
        output = done.stdout + done.stderr
        if output.count('"ev":"quiet"') != REHEARSAL.count("\n"):
            raise WorldError(
                f"the oracle did not answer every command of its rehearsal; its last output: {output[-300:]}",
                fix=f"check that `java` has version {JAVA_MIN} or later; if it does, please report this",
            )
        if archive.exists():  # some Java versions create none
            archive.rename(archive_of(program))


def command_line(
    settings: WorldSettings, program: Path, *, main: str = MAIN, version: str = FLINK_VERSION
) -> list[str]:
    """The command that starts a main class of the program, with its archive if there is one."""
    archive = archive_of(program)
    shared = (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()
    return _command(settings, program, shared, main, version)


def _command(
    settings: WorldSettings, program: Path, archive: Sequence[str], main: str, version: str
) -> list[str]:
    path = f"{program}:{flink_jar(settings.places, version=version)}"
    return [str(find_java(settings)), *OPTIONS, *archive, "-cp", path, main]


# ------------------------------------------------------------------------------------- finding and setup


def find_oracle(settings: WorldSettings, *, main: str = MAIN, version: str = FLINK_VERSION) -> list[str]:
    """The command line of one of the oracle's main classes. Raises WorldError that says what to set up."""
    find_java(settings)
    fix = SETUP if version == FLINK_VERSION else f"{SETUP} --flink {version.rpartition('.')[0]}"
    if not flink_jar(settings.places, version=version).exists():
        raise WorldError(f"there is no Flink {version} in {settings.places.root}", fix=fix)
    program = program_jar(settings, version=version)
    if not program.exists():
        raise WorldError("the oracle's Java program is not compiled, or its sources have changed", fix=fix)
    return command_line(settings, program, main=main, version=version)


def provide_oracle(task: Provision, *, version: str = FLINK_VERSION) -> Iterator[ProvisionStep]:
    """Install Flink and compile our program around its operator, for `floodmark sut serve flink`."""
    find_java(task.settings)  # checked before anything large is downloaded
    begun_us = monotonic_us()
    yield timed_step(f"Flink {version}", _flink(task, version), begun_us)
    begun_us = monotonic_us()
    yield timed_step("oracle", _program(task, version), begun_us)


def _flink(task: Provision, version: str) -> str:
    jar = flink_jar(task.settings.places, version=version)
    if task.rebuild:
        shutil.rmtree(jar.parents[2], ignore_errors=True)
    if jar.exists():
        return f"{jar}, already there"
    scratch = task.ledger.folder
    return f"installed {install_flink(task.settings.places, scratch=scratch, say=task.say, version=version)}"


def _program(task: Provision, version: str) -> str:
    program = program_jar(task.settings, version=version)
    if task.rebuild:
        shutil.rmtree(program.parent, ignore_errors=True)
    if archive_of(program).exists():
        return f"{program}, already there"
    if not program.exists():
        compile_program(task.settings, scratch=task.ledger.folder, say=task.say, version=version)
    try:
        rehearse(task.settings, program, scratch=task.ledger.folder, say=task.say, version=version)
    except WorldError:
        shutil.rmtree(program.parent)  # else the next setup would take it for complete
        raise
    return f"compiled {program}"
