//! Where a running thread is: the kernel copies its registers and stack at one tick of its CPU
//! clock, without a signal and without stopping it (`perf_event_open(2)`).

use std::io;
use std::time::{Duration, Instant};

use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag};

use super::stack::{Registers, StackCopy};

/// CPU time after which the sample is taken.
const TICK_NS: u64 = 200_000;
/// `sample_stack_user` is 16 bits wide, and a multiple of 8.
const STACK_BYTES: u32 = 48 * 1024;
/// Two samples fit.
const RING_BYTES: usize = 128 * 1024;
/// `PERF_REG_X86_BP`, `SP` and `IP` of the kernel's `arch/x86/include/uapi/asm/perf_regs.h`.
const BP_SP_IP: u64 = 1 << 6 | 1 << 7 | 1 << 8;

/// Samples one thread once. Waits up to `patience`, and longer than the thread's next 0.2 ms of
/// CPU time in any case; `None` when it didn't compute for so long.
///
/// # Errors
/// When the kernel refuses: `kernel.perf_event_paranoid` above 2, or a container's filter.
pub fn sample(tid: u32, patience: Duration) -> io::Result<Option<(Registers, StackCopy)>> {
    let tid = i32::try_from(tid).map_err(|_| io::Error::from(nix::errno::Errno::ESRCH))?;
    let mut sampler = Builder::new(Software::TASK_CLOCK)
        .observe_pid(tid)
        .any_cpu()
        .exclude_kernel(true)
        .exclude_hv(true)
        .sample_period(TICK_NS)
        .sample(SampleFlag::REGS_USER | SampleFlag::STACK_USER)
        .sample_regs_user(BP_SP_IP)
        .sample_stack_user(STACK_BYTES)
        .wakeup_events(1)
        .enabled(true)
        .build()?
        .sampled(RING_BYTES)?;
    let begun = Instant::now();
    loop {
        while let Some(record) = sampler.next_record() {
            // Records of another kind, a throttling say, are passed over.
            if let Ok(Record::Sample(sample)) = record.parse_record()
                && let Some(regs) = sample.regs_user()
                && let [bp, sp, ip] = *regs.regs
                && let Some(stack) = sample.stack_user()
            {
                let registers = Registers {
                    ip,
                    sp,
                    bp: Some(bp),
                };
                let bytes = stack.to_vec();
                return Ok(Some((registers, StackCopy { start: sp, bytes })));
            }
        }
        if begun.elapsed() > patience {
            return Ok(None);
        }
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "the watcher's thread is no loop")]
fn pause() {
    std::thread::sleep(Duration::from_nanos(TICK_NS));
}
