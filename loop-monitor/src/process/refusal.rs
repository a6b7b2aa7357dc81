//! What to do where the kernel refuses to let a process be read or traced.

use std::fs;

use nix::unistd::geteuid;

/// Where the Yama module says whom it allows it (the kernel's `admin-guide/LSM/Yama`); absent
/// without Yama.
const YAMA_SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// The right that lifts every refusal but Yama's last.
const WITH_THE_RIGHT: &str =
    "run as root, or with CAP_SYS_PTRACE; in a container, allow it by --cap-add SYS_PTRACE";

/// What to do about a process that may not be read or traced.
#[expect(
    clippy::disallowed_methods,
    reason = "files of procfs, for an error's text"
)]
pub(crate) fn advice(pid: u32) -> String {
    // Without Yama there is nothing to say of it, and of a process that has ended nothing at all.
    let scope = fs::read_to_string(YAMA_SCOPE).unwrap_or_default();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    advice_for(scope.trim(), is_of_user(&status, geteuid().as_raw()))
}

fn advice_for(yama_scope: &str, is_of_this_user: bool) -> String {
    match yama_scope {
        "1" => format!(
            "kernel.yama.ptrace_scope is 1, which allows it to the parents of a process and to \
             whom it names itself: {WITH_THE_RIGHT}; or lift that by \
             `sysctl kernel.yama.ptrace_scope=0`; for a proof, start the service by `unstall prove \
             --target` (in Python the middleware allows it when UNSTALL_PROVE=1)"
        ),
        "2" => format!("kernel.yama.ptrace_scope is 2: {WITH_THE_RIGHT}"),
        "3" => {
            "kernel.yama.ptrace_scope is 3, which forbids it to everybody, root included, until \
                the machine starts anew with another setting"
                .to_owned()
        }
        _ if is_of_this_user => format!(
            "it belongs to the same user, so it has privileges that this program lacks, or it has \
             closed itself (PR_SET_DUMPABLE), or a sandbox's seccomp profile forbids it: \
             {WITH_THE_RIGHT}"
        ),
        _ => format!("run as the same user as the process; or {WITH_THE_RIGHT}"),
    }
}

/// Whether all of a process' users are this one (`Uid` in proc(5)'s status: real, effective, saved,
/// of files), as ptrace(2) wants it.
fn is_of_user(status: &str, user: u32) -> bool {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.is_some_and(|users| {
        let mut users = users.split_ascii_whitespace();
        users.all(|other| other == user.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_of_yama_has_its_own_way_out() {
        for is_of_this_user in [true, false] {
            let advice = |scope| advice_for(scope, is_of_this_user);
            assert!(advice("1").contains("ptrace_scope=0") && advice("1").contains("--target"));
            assert!(advice("2").contains("CAP_SYS_PTRACE"));
            // Where no right helps, none is recommended.
            assert!(!advice("3").contains("CAP_SYS_PTRACE") && advice("3").contains("anew"));
        }
    }

    #[test]
    fn who_is_the_same_user_already_is_not_told_to_be() {
        for scope in ["0", ""] {
            assert!(advice_for(scope, false).contains("run as the same user"));
            let own = advice_for(scope, true);
            assert!(!own.contains("run as the same user"), "{own}");
            assert!(own.contains("PR_SET_DUMPABLE") && own.contains("CAP_SYS_PTRACE"));
        }
    }

    #[test]
    fn a_process_of_several_users_is_nobody_s() {
        assert!(is_of_user(
            "Name:\tx\nUid:\t7\t7\t7\t7\nGid:\t1\t1\t1\t1\n",
            7
        ));
        assert!(!is_of_user("Uid:\t7\t0\t0\t0\n", 7));
        assert!(!is_of_user("Uid:\t77\t77\t77\t77\n", 7));
        assert!(!is_of_user("", 7));
    }
}
