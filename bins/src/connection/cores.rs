//! Core of this end: pinned by number, near the device, or beside the peer's.
//!
//! With `--core auto` and no device, an end is pinned before it provisions any memory, to the core that it would take beside a peer with the same
//! allowed cores. Over shared memory both ends then tell their cores in HELLO. The end that connects has the other one's first, and moves
//! beside it. The listener moves only after both HELLOs, beside a peer that is elsewhere.

use super::core_distance;
use crate::command_line::options::Core;
use crate::exit::{Code, Failure};
use crate::os::core_choice::{Choice, End, choose_beside, choose_core, has_core};
use crate::protocol::{CoreDistance, Place, Role};
use core::cell::Cell;
use superpipe::os::{PinError, pin_current_thread};

/// The core of this end, and how it was asked for.
#[derive(Debug, Clone)]
pub struct Cores {
    asked: Option<Core>,
    end: End,
    pinned_to: Cell<Option<usize>>,
}

impl Cores {
    /// Creates the state of an end that is not pinned.
    #[must_use]
    pub const fn new(role: Role, asked: Option<Core>) -> Self {
        let end = match role {
            Role::Receiver | Role::Server => End::Listening,
            Role::Sender | Role::Client => End::Connecting,
        };
        Self { asked, end, pinned_to: Cell::new(None) }
    }

    /// Returns the core that this end is pinned to.
    #[must_use]
    pub fn core(&self) -> Option<u32> {
        self.pinned_to.get().and_then(|core| u32::try_from(core).ok())
    }

    /// Returns true if this end chooses its core.
    #[must_use]
    pub fn is_auto(&self) -> bool {
        self.asked == Some(Core::Auto)
    }

    /// Pins this thread, if an option asks for that. `device` is the one that an option names.
    ///
    /// # Errors
    /// The core does not exist, or this process may not use it.
    pub fn pin(&self, device: Option<&str>) -> Result<(), Failure> {
        match self.asked {
            None => Ok(()),
            Some(Core::Number(core)) => self.pin_to(core),
            Some(Core::Auto) => self.choose(device).map(drop),
        }
    }

    /// Pins this thread to a core near the device, or to the one that it takes if nothing is known of the peer.
    ///
    /// # Errors
    /// The kernel refuses to pin.
    pub fn choose(&self, device: Option<&str>) -> Result<Choice, Failure> {
        let choice = choose_core(device, self.end);
        self.move_to(choice.core)?;
        Ok(choice)
    }

    /// Moves this thread beside a peer on the same host, if it chooses its core and the peer has one. Returns the choice.
    ///
    /// # Errors
    /// The kernel refuses to pin.
    pub fn move_beside(&self, theirs: &Place) -> Result<Choice, Failure> {
        let Some(theirs) = theirs.core else { return self.choose(None) };
        let theirs = usize::try_from(theirs).unwrap_or(usize::MAX);
        let choice = choose_beside(theirs, self.pinned_to.get());
        self.move_to(choice.core)?;
        Ok(choice)
    }

    /// Measures the distance of both cores, which nobody moves away from any more. None if one has none, or it cannot be measured.
    #[must_use]
    pub fn distance_from(&self, theirs: &Place) -> Option<CoreDistance> {
        let [ours, theirs] = self.settled(theirs)?;
        core_distance::measure(ours, theirs)
    }

    /// Returns what to tell the user about the distance of both cores, which nobody moves away from any more.
    #[must_use]
    pub fn told(&self, theirs: &Place, distance: Option<CoreDistance>) -> Option<String> {
        let [ours, theirs] = self.settled(theirs)?;
        core_distance::told(ours, theirs, distance)
    }

    fn settled(&self, theirs: &Place) -> Option<[usize; 2]> {
        let theirs = usize::try_from(theirs.core.filter(|_| !theirs.may_move)?).ok()?;
        Some([self.pinned_to.get()?, theirs]).filter(|_| has_core(theirs))
    }

    fn move_to(&self, core: usize) -> Result<(), Failure> {
        if self.pinned_to.get() == Some(core) { Ok(()) } else { self.pin_to(core) }
    }

    fn pin_to(&self, core: usize) -> Result<(), Failure> {
        pin_current_thread(core).map_err(|error| {
            let code = if matches!(error, PinError::Os(_)) { Code::Device } else { Code::Usage };
            Failure::new(code, error.to_string())
        })?;
        self.pinned_to.set(Some(core));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU32;
    use superpipe::os::allowed_cores;

    fn place(core: Option<u32>) -> Place {
        Place { core, ..Place::default() }
    }

    /// Runs in a thread of its own, which it pins.
    fn in_a_thread(test: impl FnOnce() + Send) {
        std::thread::scope(|scope| scope.spawn(test).join().unwrap());
    }

    #[test]
    fn an_absurd_core_of_the_peer_does_no_harm() {
        in_a_thread(|| {
            let cores = Cores::new(Role::Sender, Some(Core::Auto));
            cores.pin(None).unwrap();
            let before = cores.core();
            for theirs in [8_191, 8_192, 1 << 31, u32::MAX - 1] {
                let theirs = place(Some(theirs));
                let choice = cores.move_beside(&theirs).unwrap();
                assert!(allowed_cores().contains(choice.core), "{choice:?}");
                assert_eq!(cores.core(), before, "nothing is better");
                let lie = CoreDistance { ends_ps: NonZeroU32::MAX, cluster_ps: Some(NonZeroU32::MIN) };
                assert_eq!((cores.distance_from(&theirs), cores.told(&theirs, Some(lie))), (None, None));
            }
        });
    }

    #[test]
    fn an_end_moves_off_the_core_of_its_peer() {
        if allowed_cores().len() < 2 {
            eprintln!("skipped: needs two cores");
            return;
        }
        in_a_thread(|| {
            let cores = Cores::new(Role::Receiver, Some(Core::Auto));
            cores.pin(None).unwrap();
            let before = cores.core().unwrap();
            let choice = cores.move_beside(&place(Some(before))).unwrap();
            assert_ne!(choice.core, before as usize);
            assert_eq!(cores.core(), u32::try_from(choice.core).ok());
            cores.move_beside(&place(None)).unwrap();
            assert_eq!(cores.core(), Some(before), "a peer without a core changes nothing");
        });
    }

    #[test]
    fn a_peer_that_may_move_is_not_measured() {
        in_a_thread(|| {
            let core = allowed_cores().iter().next().unwrap();
            let cores = Cores::new(Role::Sender, Some(Core::Number(core)));
            cores.pin(None).unwrap();
            let theirs = Place { may_move: true, ..place(Some(1)) };
            assert_eq!(cores.distance_from(&theirs), None);
        });
    }
}
