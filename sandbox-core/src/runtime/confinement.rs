//! What a command gives up before it begins: capabilities, dangerous system calls, files beyond its
//! own, and more than its share. Nothing of it can be had again.
//!
//! Namespaces hold what a command can name. The filter is against what it can ask of the kernel: calls
//! by which kernels have been attacked, and those that make namespaces, in which it would have rights.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities, set_no_new_privs,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

use super::wire::{Landlock, SetUp};

/// The kernel's first Landlock with all that guards files from being written: Linux 6.2.
const LANDLOCK_ABI: ABI = ABI::V3;

/// Open files of a process: what most systems allow without being asked for more.
const OPEN_FILES_MAX: u64 = 65_536;

/// Calls that no command needs and that reach what no namespace holds.
const REFUSED: [libc::c_long; 40] = [
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_bpf,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
];

/// Families of sockets that reach past a network namespace: the kernel's ciphers, and the hypervisor.
const REFUSED_SOCKETS: [libc::c_int; 2] = [libc::AF_ALG, libc::AF_VSOCK];

/// Writes into a terminal as if it were typed there, or pastes its selection.
const REFUSED_IOCTLS: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

/// What every command of a runtime gives up.
pub(super) struct Confinement {
    filter: BpfProgram,
    landlock: Option<RulesetCreated>,
    limits: Vec<(Resource, u64)>,
}

impl Confinement {
    /// Prepares what commands give up, so that each only has to do it.
    ///
    /// # Errors
    /// When the filter can't be made for this processor, or Landlock is required and isn't there.
    pub(super) fn prepare(set_up: &SetUp) -> io::Result<Self> {
        let mut limits = vec![(Resource::Core, 0), (Resource::Nofile, OPEN_FILES_MAX)];
        let asked = [
            (Resource::Fsize, set_up.file_bytes_max),
            (Resource::Data, set_up.data_bytes_max),
            (Resource::Nproc, set_up.processes_max),
        ];
        limits.extend(asked.into_iter().filter(|(_, limit)| *limit > 0));
        Ok(Self {
            filter: filter(set_up.any_socket).map_err(io::Error::other)?,
            landlock: landlock(set_up)?,
            limits,
        })
    }

    /// Does Landlock guard the files?
    pub(super) fn has_landlock(&self) -> bool {
        self.landlock.is_some()
    }

    /// Gives it up, for this process and whatever it will start.
    ///
    /// # Errors
    /// When the kernel refuses any of it; then nothing may be started.
    pub(super) fn apply(&self) -> io::Result<()> {
        for (resource, limit) in &self.limits {
            let most = rustix::process::getrlimit(*resource).maximum;
            let limit = Some(most.map_or(*limit, |most| most.min(*limit)));
            let both = Rlimit {
                current: limit,
                maximum: limit,
            };
            setrlimit(*resource, both)?;
        }
        // Else the command, which has the same user, could open this process's memory.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        set_no_new_privs(true)?;
        if let Some(ruleset) = &self.landlock {
            let ruleset = ruleset.try_clone()?;
            ruleset.restrict_self().map_err(io::Error::other)?;
        }
        clear_ambient_capability_set()?;
        let nothing = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, nothing)?;
        apply_filter(&self.filter).map_err(io::Error::other)
    }
}

/// Calls are refused with EPERM; those of another processor's numbering kill.
fn refused_calls(any_socket: bool) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in REFUSED {
        rules.insert(call, Vec::new());
    }
    #[cfg(target_arch = "x86_64")]
    for call in [libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt] {
        rules.insert(call, Vec::new());
    }
    let has_argument = |index, comparison, value| {
        let length = SeccompCmpArgLen::Dword; // the kernel looks at 32 bits, too
        let condition = SeccompCondition::new(index, length, comparison, value)?;
        SeccompRule::new(vec![condition])
    };
    let new_user = libc::CLONE_NEWUSER.unsigned_abs().into();
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        let has_flag = SeccompCmpOp::MaskedEq(new_user);
        rules.insert(call, vec![has_argument(0, has_flag, new_user)?]);
    }
    for request in REFUSED_IOCTLS {
        let rule = has_argument(1, SeccompCmpOp::Eq, request)?;
        rules.entry(libc::SYS_ioctl).or_default().push(rule);
    }
    for family in REFUSED_SOCKETS.iter().filter(|_| !any_socket) {
        let family = family.unsigned_abs().into();
        let rule = has_argument(0, SeccompCmpOp::Eq, family)?;
        rules.entry(libc::SYS_socket).or_default().push(rule);
    }
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let processor = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, SeccompAction::Allow, refused, processor)?.try_into()
}

/// What a filter begins with: calls that are as if this kernel didn't know them. `clone3` is one, whose
/// flags a filter can't see, so that programs fall back to `clone`; the numbers of the x32 form are
/// others, which would pass by what follows. The rest falls through to that.
fn unknown_calls() -> BpfProgram {
    const LOAD_CALL: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const IF_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
    const ANSWER: u16 = 0x06; // BPF_RET | BPF_K
    const X32_BIT: u32 = 0x4000_0000;
    let unknown = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let clone3 = libc::SYS_clone3.unsigned_abs() as u32;
    vec![
        step(LOAD_CALL, 0, 0, 0), // the call's number is the first word of seccomp's data
        step(IF_EQUAL, 1, 0, clone3),
        step(IF_AT_LEAST, 0, 1, X32_BIT),
        step(ANSWER, 0, 0, unknown),
    ]
}

/// One filter, since each is compiled anew for each command. Its jumps are relative, so that parts can
/// follow each other.
fn filter(any_socket: bool) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut filter = unknown_calls();
    filter.extend(refused_calls(any_socket)?);
    Ok(filter)
}

fn landlock(set_up: &SetUp) -> io::Result<Option<RulesetCreated>> {
    if set_up.landlock == Landlock::Off {
        return Ok(None);
    }
    let handled = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(LANDLOCK_ABI))
        .and_then(Ruleset::create);
    let ruleset = match handled {
        Ok(ruleset) => ruleset,
        Err(_) if set_up.landlock == Landlock::IfThere => return Ok(None),
        Err(error) => return Err(io::Error::other(error)),
    };
    let root = Path::new("/").to_path_buf();
    let readable = [(&root, AccessFs::from_read(LANDLOCK_ABI))];
    let all = |path| (path, AccessFs::from_all(LANDLOCK_ABI));
    let rules = readable.into_iter().chain(set_up.writable.iter().map(all));
    let rules = rules.map(|(path, access)| {
        let opened = PathFd::new(path).map_err(io::Error::other)?;
        Ok(PathBeneath::new(opened, access))
    });
    let rules: io::Result<Vec<PathBeneath<PathFd>>> = rules.collect();
    let mut ruleset = ruleset;
    for rule in rules? {
        ruleset = ruleset.add_rule(rule).map_err(io::Error::other)?;
    }
    Ok(Some(ruleset))
}

/// Where commands may always write, beside their mounts: what dies with the runtime, and devices.
pub(super) fn always_writable() -> [PathBuf; 2] {
    ["/tmp", "/dev"].map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_can_be_made_for_this_processor() {
        for any_socket in [false, true] {
            let program = filter(any_socket).expect("a filter");
            assert!(program.len() > REFUSED.len());
        }
        let set_up = SetUp {
            file_bytes_max: 5,
            ..SetUp::default()
        };
        let confinement = Confinement::prepare(&set_up).expect("it can be made");
        assert!(!confinement.has_landlock());
        assert_eq!(confinement.limits.len(), 3);
    }
}
