//! The clock by which leases end, as both ends of a runtime read it, and an alarm at a moment of it.
//!
//! It is Linux' `CLOCK_BOOTTIME`, which all processes of a machine share and which goes on while the
//! machine sleeps. The time limit of a poll stands still then, so the alarm is a timer of that clock.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::boot_time::boot_time;

/// No moment: later than any.
pub(super) const NEVER_US: u64 = u64::MAX;

/// The moment now, in microseconds since the machine was started.
pub(super) fn boot_time_us() -> u64 {
    moment_us(boot_time())
}

/// A moment of the boot clock, as it travels.
pub(super) fn moment_us(moment: Duration) -> u64 {
    u64::try_from(moment.as_micros()).unwrap_or(NEVER_US)
}

/// A descriptor that can be read from a moment on.
pub(super) struct Alarm {
    timer: OwnedFd,
    at_us: u64,
}

impl Alarm {
    /// One that never rings until it is set.
    ///
    /// # Errors
    /// When the system has no more timers.
    pub(super) fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?;
        Ok(Self {
            timer,
            at_us: NEVER_US,
        })
    }

    /// It rings from that moment on, which may be over, until it is set to another one.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn set(&mut self, at_us: u64) -> io::Result<()> {
        if at_us == self.at_us {
            return Ok(());
        }
        let it_value = match at_us {
            NEVER_US => Timespec::default(), // which turns it off
            0 => Timespec {
                tv_sec: 0,
                tv_nsec: 1,
            },
            _ => Timespec {
                tv_sec: i64::try_from(at_us / 1_000_000).unwrap_or(i64::MAX),
                tv_nsec: Duration::from_micros(at_us).subsec_nanos().into(),
            },
        };
        let when = Itimerspec {
            it_interval: Timespec::default(),
            it_value,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &when)?;
        self.at_us = at_us;
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    /// Does it ring within so many seconds?
    fn rings(alarm: &Alarm, within_s: i64) -> bool {
        let limit = Timespec {
            tv_sec: within_s,
            tv_nsec: 0,
        };
        let rung = poll(&mut [PollFd::new(alarm, PollFlags::IN)], Some(&limit));
        rung.expect("it polls") == 1
    }

    #[test]
    fn an_alarm_rings_from_its_moment_on_until_it_is_set_anew() {
        let mut alarm = Alarm::new().expect("a timer");
        assert!(!rings(&alarm, 0));
        for over_us in [0, 1, boot_time_us()] {
            alarm.set(over_us).expect("it is set");
            assert!(rings(&alarm, 60) && rings(&alarm, 0));
            alarm.set(NEVER_US).expect("it is set");
            assert!(!rings(&alarm, 0));
        }
        let in_an_hour_us = boot_time_us() + 3_600_000_000;
        alarm.set(in_an_hour_us).expect("it is set");
        assert!(!rings(&alarm, 0));
        alarm.set(boot_time_us() + 10_000).expect("it is set");
        assert!(rings(&alarm, 60));
    }
}
