//! Each time that a thread leaves its core or comes back, as the kernel tells it.
//!
//! `perf_event_open(2)` with `context_switch` writes a record per switch into a ring that is read
//! here; `PERF_RECORD_MISC_SWITCH_OUT_PREEMPT` tells who was pushed off from who fell asleep. Where
//! the kernel allows it (`kernel.perf_event_paranoid` ≤ 1, or `CAP_PERFMON`) each switch also brings
//! the thread's registers along, which tell where in the program it sleeps, and on what.

use std::io;

use perf_event::events::Software;
use perf_event::{Builder, Clock, SampleFlag, Sampler};

use super::ledger::Site;

/// Records wait here between two drains, and 1 MiB has room for a second of 10 000 sleeps. What one
/// user may lock of memory (`kernel.perf_event_mlock_kb`) may be less.
const RING_BYTES: [usize; 3] = [1024 * 1024, 256 * 1024, 64 * 1024];
/// Record types and flags of `linux/perf_event.h`.
const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;
const RECORD_SWITCH: u32 = 14;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;
/// `struct perf_event_header`.
const HEADER_BYTES: usize = 8;
/// Bits of `PERF_REG_X86_DI` and `PERF_REG_X86_IP` (`asm/perf_regs.h`), written in this order.
const REGISTERS: u64 = 1 << 5 | 1 << 8;

/// One switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Switch {
    /// It gave up its core.
    FellAsleep {
        /// `CLOCK_MONOTONIC`.
        at_ns: u64,
        /// Where, if the kernel tells.
        site: Option<Site>,
    },
    /// It lost its core.
    PushedOff {
        /// `CLOCK_MONOTONIC`.
        at_ns: u64,
    },
    /// It got a core.
    Runs {
        /// `CLOCK_MONOTONIC`.
        at_ns: u64,
    },
    /// The ring was full and so many records are missing.
    Lost(u64),
}

/// The switches of one thread from now on.
pub(super) struct Switches {
    sampler: Sampler,
    tells_registers: bool,
    ring_bytes: usize,
    /// How full the ring was when it was read last: from 0 to 1.
    fill: f64,
    /// Those of the sleep whose record comes next.
    site: Option<Site>,
}

impl Switches {
    /// Asks the kernel for a thread's switches, with registers where it may.
    ///
    /// # Errors
    /// It refuses (`kernel.perf_event_paranoid`, a seccomp filter), or has no such events.
    pub(super) fn of_thread(tid: i32) -> io::Result<Self> {
        Self::with_registers(tid).or_else(|_| Self::without_registers(tid))
    }

    fn with_registers(tid: i32) -> io::Result<Self> {
        let mut builder = Builder::new(Software::CONTEXT_SWITCHES);
        builder
            .include_kernel()
            .sample_period(1)
            .sample(SampleFlag::TIME | SampleFlag::REGS_USER)
            .sample_regs_user(REGISTERS);
        Self::start(&mut builder, tid, true)
    }

    fn without_registers(tid: i32) -> io::Result<Self> {
        let mut builder = Builder::new(Software::DUMMY);
        builder.sample(SampleFlag::TIME);
        Self::start(&mut builder, tid, false)
    }

    fn start(builder: &mut Builder<'_>, tid: i32, tells_registers: bool) -> io::Result<Self> {
        builder
            .observe_pid(tid)
            .any_cpu()
            .exclude_hv(true)
            .context_switch(true)
            .sample_id_all(true)
            .clockid(Clock::MONOTONIC)
            // Nobody is woken: whoever drains comes by itself.
            .wakeup_watermark(RING_BYTES[0]);
        let (mut sampler, mut ring_bytes) = (Err(io::ErrorKind::OutOfMemory.into()), 0);
        for bytes in RING_BYTES {
            (sampler, ring_bytes) = (builder.build()?.sampled(bytes), bytes);
            if sampler.is_ok() {
                break;
            }
        }
        let mut sampler = sampler?;
        sampler.as_counter_mut().enable()?;
        Ok(Self {
            sampler,
            tells_registers,
            ring_bytes,
            fill: 0.0,
            site: None,
        })
    }

    /// Whether sleeps come with registers.
    pub(super) fn tell_registers(&self) -> bool {
        self.tells_registers
    }

    /// How full the ring was when it was read last: from 0 to 1.
    pub(super) fn fill(&self) -> f64 {
        self.fill
    }

    /// Hands over every switch since the last time, oldest first.
    pub(super) fn drain(&mut self, mut each: impl FnMut(Switch)) {
        let mut bytes = 0;
        while let Some(record) = self.sampler.next_record() {
            bytes += HEADER_BYTES + record.len();
            let (kind, flags) = (record.ty(), record.misc());
            let body = record.to_contiguous();
            match kind {
                RECORD_SAMPLE => self.site = sampled_site(&body),
                RECORD_SWITCH => {
                    let Some(at_ns) = word(&body, 0) else {
                        continue;
                    };
                    each(switch(at_ns, flags, self.site.take()));
                }
                RECORD_LOST => each(Switch::Lost(word(&body, 1).unwrap_or(1))),
                // Throttling and the like: nothing that moves a thread.
                _ => {}
            }
        }
        self.fill = bytes as f64 / self.ring_bytes as f64;
    }
}

fn switch(at_ns: u64, flags: u16, site: Option<Site>) -> Switch {
    if flags & MISC_SWITCH_OUT == 0 {
        Switch::Runs { at_ns }
    } else if flags & MISC_SWITCH_OUT_PREEMPT != 0 {
        Switch::PushedOff { at_ns }
    } else {
        Switch::FellAsleep { at_ns, site }
    }
}

/// Time, the registers' form (0 for none), then the registers in the order of their bits.
fn sampled_site(body: &[u8]) -> Option<Site> {
    if word(body, 1)? == 0 {
        return None;
    }
    Some(Site {
        argument: word(body, 2)?,
        pc: word(body, 3)?,
    })
}

fn word(body: &[u8], index: usize) -> Option<u64> {
    let bytes = body.get(index * 8..index * 8 + 8)?;
    bytes.try_into().map(u64::from_ne_bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_pushed_off_did_not_fall_asleep() {
        let at_ns = 7;
        assert_eq!(switch(at_ns, 0, None), Switch::Runs { at_ns });
        let out = MISC_SWITCH_OUT;
        let site = None;
        assert_eq!(switch(at_ns, out, None), Switch::FellAsleep { at_ns, site });
        let preempted = out | MISC_SWITCH_OUT_PREEMPT;
        assert_eq!(switch(at_ns, preempted, None), Switch::PushedOff { at_ns });
    }

    #[test]
    fn a_record_that_is_cut_short_tells_nothing() {
        let words = |words: &[u64]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_ne_bytes()).collect()
        };
        let whole = words(&[1, 2, 30, 31]);
        let site = Site {
            pc: 31,
            argument: 30,
        };
        assert_eq!(sampled_site(&whole), Some(site));
        assert_eq!(sampled_site(&whole[..24]), None);
        assert_eq!(sampled_site(&words(&[1, 0, 0, 0])), None);
    }
}
