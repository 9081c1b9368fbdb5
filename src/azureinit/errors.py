"""The error classes: every failure that a user or the platform can cause, and its report to the platform.

    class                      reason on the wire                      exit raised when
    AzureInitError             unhandled error                            1 base class; any unforeseen exception
    +- ConfigInvalid           invalid configuration                     78 a config file, variable or flag is wrong
    +- UsageError              usage error                                2 the command line is wrong
    +- LocalError              I/O error                                  1 a file operation failed on this machine
    |  +- NoSpace              no space left on device                    1 the disk is full
    |  +- ReadOnly             read-only file system                      1 the file system refuses every write
    |  +- PlanStale            file changed while provisioning            1 a file was changed after the plan was made
    |  +- LockTimeout          lock not obtained                          1 another process holds the lock
    +- ToolMissing             program not found                          1 a program is not installed
    +- SubprocessFailed        subprocess failed                          1 a program ended with an error
    +- SubprocessTimeout       subprocess timed out                       1 a program was ended for taking too long
    +- HttpFailed              HTTP error                                 1 an endpoint never gave a usable answer
    |  +- HttpTimeout          operation timed out                        1 the time was over before an answer came
    +- SourceError             failed to read a metadata source           1 base class of failures of a source
    |  +- ImdsUnavailable      failed to retrieve instance metadata       1 IMDS gave no usable answer in its time
    |  |  +- NoNetwork         no network                               1 no link, no lease or no route to the platform
    |  |  +- ImdsConnectTimeout  connection timeout querying IMDS         1 no connection was established in its time
    |  |  +- ImdsConnectFailed   connection error querying IMDS           1 a connection was refused, reset or cut off
    |  |  +- ImdsReadTimeout     read timeout querying IMDS               1 no answer came over the connection
    |  |  +- ImdsRefused         http error N querying IMDS               1 IMDS answered with that status
    |  |  +- ImdsInvalid         invalid IMDS metadata for key=K          1 a value of its document is of the wrong kind
    |  |     +- ImdsUnparsable   error parsing IMDS metadata              1 ... or the document is not JSON
    |  +- ProxyAgentFailed     azure-proxy-agent status failure           1 the guest proxy agent is not ready
    |  |  +- ProxyAgentMissing   azure-proxy-agent not found              1 it is needed and not installed
    |  +- MediaAbsent          provisioning media not found               1 no medium was found in its time
    |  +- MediaUnreadable      failed to read provisioning media          1 a medium was found and cannot be read
    |  +- MediaRefused         provisioning media contradict IMDS         1 the medium belongs to another VM
    |  +- OvfInvalid           error parsing ovf-env.xml                  1 ovf-env.xml is malformed
    |  +- GoalStateMissing     failed to retrieve the goal state          1 the wireserver did not send one
    |  +- GoalStateInvalid     invalid goal state                         1 ... or a malformed one
    |  +- CertificatesMissing  failed to retrieve certificates            1 ... or not the certificates it names
    |  +- VmIdUnknown          failed to identify the VM ID               1 no source gives a VM id
    +- MetadataError           failed to determine what to provision      1 base class of incomplete requests
    |  +- UsernameMissing      failed to determine username               1 no source names the admin user
    |  +- HostnameMissing      failed to determine hostname               1 no source names the host
    |  +- NoCredentials        no usable credential                       1 neither a key nor a password was given
    |  +- CustomDataMissing    failure to read customData while hasCustomData=true  1 no medium has what IMDS announces
    |  +- InvalidUsername      invalid username                           1 the name cannot be used for an account
    |  +- InvalidHostname      invalid hostname                           1 the name cannot be used for a host
    |  +- InvalidKey           invalid SSH public key                     1 sshd would refuse a given key
    +- UserMissing             user not found                            78 a required account does not exist
    +- StepFailed              provisioning step failed                   1 every backend of a step failed
    |  +- HostnameFailed       failed to provision hostname               1 ... of the hostname
    |  +- UserFailed           failed to provision user                   1 ... of the account
    |  +- PasswordFailed       failed to provision password               1 ... of the password
    |  +- SshdFailed           failed to update sshd config               1 ... of sshd's configuration
    |  +- KeysFailed           failed to install SSH keys                 1 ... of the authorized keys
    |  +- HostKeysFailed       failed to make SSH host keys               1 ... of the host keys
    |  +- LoginImpossible      the admin cannot log in                    1 ... sshd would refuse every given credential
    |  +- CustomDataFailed     failed to run customData                   1 ... of the program given as customData
    +- NotConverged            work left after provisioning               1 planning again still finds something to do
    +- DeadlineExceeded        provisioning deadline exceeded             1 the deadline of the run passed
    +- RunDied                 azure-init did not finish                  1 the service died or took too long
    |  +- Terminated           azure-init was stopped                     1 SIGTERM came before there was a verdict
    +- PoolReadyFailed         failed to report Ready in the pool         1 a VM of a pool could not tell that it waits
    +- VerdictUndelivered      verdict not delivered                     75 the platform never accepted the verdict

`reason` is unique, exit codes are those of docs/exit-codes.md; tests check both and this table. If cloud-init has a
reason for the same cause, the words are the same, so that one search finds both agents' failures.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class AzureInitError(Exception):
    """What failed (`str(error)`), what to do (`hint`), and the data that go into the report."""

    reason = "unhandled error"
    exit_code = 1
    recoverable = False  # True: a retry may succeed

    def __init__(self, message: str, *, hint: str = "", reason: str = "", **data: object) -> None:
        """`reason`: replaces the class's reason if that has a placeholder."""
        super().__init__(message)
        self.message = message
        self.hint = hint
        if reason:
            self.reason = reason
        self.data: dict[str, str] = {key: str(value) for key, value in data.items()}

    def supporting(self) -> dict[str, str]:
        """The report's supporting data, cause last."""
        return {**self.data, "error": self.message}

    def __str__(self) -> str:
        return self.message


class ConfigInvalid(AzureInitError):
    reason = "invalid configuration"
    exit_code = 78


class UsageError(AzureInitError):
    reason = "usage error"
    exit_code = 2


class LocalError(AzureInitError):
    reason = "I/O error"
    errno = 0


class NoSpace(LocalError):
    reason = "no space left on device"


class ReadOnly(LocalError):
    reason = "read-only file system"


class PlanStale(LocalError):
    reason = "file changed while provisioning"
    recoverable = True


class LockTimeout(LocalError):
    reason = "lock not obtained"


class ToolMissing(AzureInitError):
    reason = "program not found"


class SubprocessFailed(AzureInitError):
    reason = "subprocess failed"


class SubprocessTimeout(AzureInitError):
    reason = "subprocess timed out"


class HttpFailed(AzureInitError):
    reason = "HTTP error"
    status = 0  # of the last answer; 0: the last attempt got none
    timeout = ""  # the kind of timeout that ended the last attempt: "connect", "read" or none
    retry_after = 0.0  # the seconds that the last answer asked to wait


class HttpTimeout(HttpFailed):
    reason = "operation timed out"


class SourceError(AzureInitError):
    reason = "failed to read a metadata source"


class ImdsUnavailable(SourceError):
    reason = "failed to retrieve instance metadata"


class NoNetwork(ImdsUnavailable):
    reason = "no network"
    recoverable = True  # a link may come up late


class ImdsConnectTimeout(ImdsUnavailable):
    reason = "connection timeout querying IMDS"


class ImdsConnectFailed(ImdsUnavailable):
    reason = "connection error querying IMDS"


class ImdsReadTimeout(ImdsUnavailable):
    reason = "read timeout querying IMDS"


class ImdsRefused(ImdsUnavailable):
    reason = "http error N querying IMDS"


class ImdsInvalid(ImdsUnavailable):
    reason = "invalid IMDS metadata for key=K"


class ImdsUnparsable(ImdsInvalid):
    reason = "error parsing IMDS metadata"


class ProxyAgentFailed(SourceError):
    reason = "azure-proxy-agent status failure"


class ProxyAgentMissing(ProxyAgentFailed):
    reason = "azure-proxy-agent not found"


class MediaAbsent(SourceError):
    reason = "provisioning media not found"
    recoverable = True  # a medium may come late


class MediaUnreadable(SourceError):
    reason = "failed to read provisioning media"


class MediaRefused(SourceError):
    reason = "provisioning media contradict IMDS"


class OvfInvalid(SourceError):
    reason = "error parsing ovf-env.xml"


class GoalStateMissing(SourceError):
    reason = "failed to retrieve the goal state"


class GoalStateInvalid(SourceError):
    reason = "invalid goal state"


class CertificatesMissing(SourceError):
    reason = "failed to retrieve certificates"


class VmIdUnknown(SourceError):
    reason = "failed to identify the VM ID"


class MetadataError(AzureInitError):
    reason = "failed to determine what to provision"


class UsernameMissing(MetadataError):
    reason = "failed to determine username"


class HostnameMissing(MetadataError):
    reason = "failed to determine hostname"


class NoCredentials(MetadataError):
    reason = "no usable credential"


class CustomDataMissing(MetadataError):
    reason = "failure to read customData while hasCustomData=true"


class InvalidUsername(MetadataError):
    reason = "invalid username"


class InvalidHostname(MetadataError):
    reason = "invalid hostname"


class InvalidKey(MetadataError):
    reason = "invalid SSH public key"


class UserMissing(AzureInitError):
    reason = "user not found"
    exit_code = 78


class StepFailed(AzureInitError):
    """Every backend of a step failed; each one's error is kept and reaches the report."""

    reason = "provisioning step failed"

    def __init__(self, step: str, failures: Mapping[str, AzureInitError], *, hint: str = "") -> None:
        told = "; ".join(f"{backend}: {error}" for backend, error in failures.items()) or "no backend is configured"
        super().__init__(f"{step}: {told}", hint=hint)
        self.step = step
        self.failures = dict(failures)

    def supporting(self) -> dict[str, str]:
        return {"step": self.step, **{backend: str(error) for backend, error in self.failures.items()}}


class HostnameFailed(StepFailed):
    reason = "failed to provision hostname"


class UserFailed(StepFailed):
    reason = "failed to provision user"


class PasswordFailed(StepFailed):
    reason = "failed to provision password"


class SshdFailed(StepFailed):
    reason = "failed to update sshd config"


class KeysFailed(StepFailed):
    reason = "failed to install SSH keys"


class HostKeysFailed(StepFailed):
    reason = "failed to make SSH host keys"


class LoginImpossible(StepFailed):
    reason = "the admin cannot log in"


class CustomDataFailed(StepFailed):
    reason = "failed to run customData"

    def supporting(self) -> dict[str, str]:
        """`data`: of a module, its name, its stage and the exit status."""
        return {**self.data, **super().supporting()}


class NotConverged(AzureInitError):
    reason = "work left after provisioning"


class DeadlineExceeded(AzureInitError):
    reason = "provisioning deadline exceeded"


class RunDied(AzureInitError):
    reason = "azure-init did not finish"


class Terminated(RunDied):
    reason = "azure-init was stopped"


class PoolReadyFailed(AzureInitError):
    reason = "failed to report Ready in the pool"


class VerdictUndelivered(AzureInitError):
    reason = "verdict not delivered"
    exit_code = 75
