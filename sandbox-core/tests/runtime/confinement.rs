//! What a command can't reach: the machine's files, environment, network, users and kernel.

use std::net::TcpListener;

use unstall_sandbox_core::domain::SandboxError;
use unstall_sandbox_core::ports::runtimes::{ExecRequest, Mount, Network};
use unstall_sandbox_core::runtime::LandlockUse;

use crate::machine::{Machine, refused, run, says, settings, shell};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_is_mounted_is_there() {
    let machine = Machine::bubblewrap().await;
    let beside = tempfile::tempdir().expect("a folder");
    std::fs::write(beside.path().join("secret"), "x").expect("it is written");
    std::fs::write(machine.tree().join("own"), "mine").expect("it is written");
    let runtime = machine.runtime().await;
    assert_eq!(
        says(&*runtime, "cat own; echo x > new; cat new").await,
        "minex"
    );
    let secret = beside.path().join("secret");
    for path in [
        secret.as_path(),
        "/etc/shadow".as_ref(),
        "/var/log".as_ref(),
        "/sys".as_ref(),
    ] {
        let result = run(&*runtime, &format!("ls {}", path.display())).await;
        assert_ne!(result.exit_code, 0, "{} is there", path.display());
    }
    assert_eq!(says(&*runtime, "ls /").await, LISTING);
    let new = std::fs::read_to_string(machine.tree().join("new"));
    assert_eq!(new.expect("it was written"), "x\n");
}

const LISTING: &str = "bin\ndev\netc\nlib\nlib64\nproc\nrun\nsbin\ntmp\nusr";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_outside_of_the_tree_can_be_written() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    for path in [
        "/new",
        "/usr/new",
        "/etc/passwd",
        "/run/unstall/new",
        "/usr/bin/env",
        "/proc/sys/kernel/hostname",
    ] {
        let result = run(&*runtime, &format!("echo x >> {path}")).await;
        assert_ne!(result.exit_code, 0, "{path} can be written");
    }
    let said = says(
        &*runtime,
        "echo x > /tmp/a; echo x > /dev/shm/b; echo x > /dev/null; echo fine",
    )
    .await;
    assert_eq!(said, "fine");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_that_is_mounted_read_only_is_so_in_every_way() {
    for landlock in [LandlockUse::Off, LandlockUse::IfThere] {
        let mut settings = settings();
        settings.landlock = landlock;
        let machine = Machine::with(settings).await;
        std::fs::write(machine.tree().join("own"), "mine").expect("it is written");
        let mut spec = machine.spec();
        spec.mounts[0].writable = false;
        let runtime = machine.make(&spec).await;
        assert_eq!(says(&*runtime, "cat own").await, "mine");
        for script in [
            "echo x > new",
            "echo x >> own",
            "rm own",
            "chmod 777 own",
            "mkdir d",
            "mv own a",
            "ln own b",
            "touch own",
            "mount -o remount,rw .",
        ] {
            let result = run(&*runtime, script).await;
            assert_ne!(result.exit_code, 0, "{script} with {landlock:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_our_environment_or_open_files_gets_in() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    let said = says(&*runtime, "env | cut -d= -f1 | sort | tr '\\n' ' '").await;
    assert_eq!(said, "HOME LANG LOGNAME PATH PWD TERM USER");
    let said = says(
        &*runtime,
        "ls /proc/self/fd | tr '\\n' ' '; readlink /proc/$$/fd/0",
    )
    .await;
    assert_eq!(said, "0 1 2 3 /dev/null", "ls itself has the fourth");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_is_nobody_with_no_rights_and_stays_so() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    assert_eq!(
        says(&*runtime, "id -un; id -u; hostname").await,
        "agent\n1000\nsandbox"
    );
    let said = says(
        &*runtime,
        "grep -E '^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t\\n'",
    )
    .await;
    let none = "0000000000000000";
    assert_eq!(
        said,
        format!("CapInh:{none}CapPrm:{none}CapEff:{none}CapAmb:{none}NoNewPrivs:1Seccomp:2")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dangerous_calls_are_refused() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    let script = r#"
import ctypes, errno, os, fcntl
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    answer = libc.syscall(number, *[ctypes.c_long(a) for a in arguments])
    return errno.errorcode.get(ctypes.get_errno(), "fine") if answer == -1 else "fine"
CALLS = dict(mount=165, ptrace=101, bpf=321, keyctl=250, userfaultfd=323, perf_event_open=298,
    kexec_load=246, init_module=175, io_uring_setup=425, setns=308, process_vm_readv=310,
    open_by_handle_at=304, reboot=169, add_key=248, pidfd_getfd=438)
print(sorted({call(number, 0, 0, 0, 0, 0) for number in CALLS.values()}))
NEWUSER, NEWNS, SIGCHLD = 0x10000000, 0x20000, 17
print(call(272, NEWUSER), call(56, NEWUSER | SIGCHLD, 0, 0, 0, 0), call(435, 0, 0), call(272, NEWNS))
print(call(41, 40, 1, 0), call(41, 38, 5, 0), call(41, 1, 1, 0))
print(call(16, 0, 0x5412, 0), call(16, 0, 0x541C, 0))
print(call(0x40000000 + 39))
"#;
    let mut request = ExecRequest::new(["python3", "-c", script]);
    request.timeout = crate::machine::LONG;
    let result = runtime.exec(request).await.expect("it runs");
    assert_eq!(
        result.stdout.text(),
        "['EPERM']\nEPERM EPERM ENOSYS EPERM\nEPERM EPERM fine\nEPERM EPERM\nENOSYS\n",
        "{}",
        result.stderr.text()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_machine_cannot_be_reached_by_the_network() {
    let machine = Machine::bubblewrap().await;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    let script = format!(
        "import socket\ntry:\n  socket.create_connection(('127.0.0.1', {port}), 2)\n  print('reached')\nexcept OSError as e:\n  print('refused')\nprint(socket.if_nameindex())"
    );
    for network in [Network::None, Network::Limited] {
        let mut spec = machine.spec();
        spec.network = network;
        let runtime = machine.make(&spec).await;
        let result = runtime
            .exec(ExecRequest::new(["python3", "-c", &script]))
            .await;
        assert_eq!(
            result.expect("it runs").stdout.text(),
            "refused\n[(1, 'lo')]\n"
        );
    }
    let mut spec = machine.spec();
    spec.network = Network::Unlimited;
    let error = machine
        .provider
        .create(&spec)
        .await
        .err()
        .expect("nobody allowed it");
    assert!(matches!(error, SandboxError::Invalid(_)), "{error:?}");

    let mut settings = settings();
    settings.may_have_network = true;
    let machine = Machine::with(settings).await;
    let mut spec = machine.spec();
    spec.network = Network::Unlimited;
    let runtime = machine.make(&spec).await;
    let result = runtime
        .exec(ExecRequest::new(["python3", "-c", &script]))
        .await;
    assert!(
        result
            .expect("it runs")
            .stdout
            .text()
            .starts_with("reached")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn landlock_is_on_where_it_is_said_to_be() {
    let mut settings = settings();
    settings.landlock = LandlockUse::IfThere;
    let machine = Machine::with(settings.clone()).await;
    let isolation = machine.provider.capabilities().isolation;
    assert!(isolation.namespaces && isolation.system_call_filter && isolation.read_only_mounts);
    settings.landlock = LandlockUse::Required;
    let pool = crate::machine::pool();
    let required = unstall_sandbox_core::runtime::Bubblewrap::probe(settings.clone(), pool).await;
    assert_eq!(
        required.is_ok(),
        isolation.landlock,
        "required means required"
    );
    if let Ok(required) = required {
        use unstall_sandbox_core::ports::runtimes::RuntimeProvider;
        let runtime = required.create(&machine.spec()).await.expect("a runtime");
        // Both guards stand, and what is allowed goes through both.
        let said = says(
            &*runtime,
            "echo x > a && mkdir d && mv a d/b && cat d/b && echo x > /usr/a || echo guarded",
        )
        .await;
        assert_eq!(said, "x\nguarded");
    }
    settings.landlock = LandlockUse::Off;
    let machine = Machine::with(settings).await;
    assert!(!machine.provider.capabilities().isolation.landlock);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mount_that_is_not_there_is_an_error_that_names_it() {
    let machine = Machine::bubblewrap().await;
    let mut spec = machine.spec();
    spec.mounts.push(Mount {
        source: "/no/such/folder".into(),
        target: "/mnt/x".into(),
        writable: false,
    });
    let error = machine
        .provider
        .create(&spec)
        .await
        .err()
        .expect("it can't be mounted");
    let text = error.to_string();
    assert!(
        matches!(error, SandboxError::Unavailable { .. }),
        "{error:?}"
    );
    assert!(text.contains("/no/such/folder"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_of_a_command_are_in_its_environment_alone() {
    let machine = Machine::bubblewrap().await;
    let runtime = machine.runtime().await;
    let secret = "hunter2-4711";
    let mut request = shell("printf %s \"$TOKEN\"");
    request.env = request.env.with("TOKEN", secret);
    let result = runtime.exec(request).await.expect("it runs");
    assert_eq!(result.stdout.text(), secret);
    let later = says(
        &*runtime,
        "cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' ' '",
    )
    .await;
    assert!(!later.contains(secret), "{later}");
    let mut request = ExecRequest::new(["no-such-program", secret]);
    request.env = request.env.with("TOKEN", secret);
    let error = refused(&*runtime, request).await;
    assert!(!format!("{error} {error:?}").contains(secret));
}
