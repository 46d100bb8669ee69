//! Windows that ends choose while they send.

use super::State;
use crate::explore::cases::BLOCK_BYTES;
use crate::explore::step::Step;

impl<const DIRECT: bool> State<DIRECT> {
    /// Adds the choice of each other window, as long as the end has something to send.
    pub(super) fn window_steps(&self, side: usize, steps: &mut Vec<Step>) {
        let window = self.ends[side].0.endpoint().window();
        if side == 0 && !self.flows[side].is_sent() {
            let others = self.case.windows.iter().filter(|&&blocks| blocks * BLOCK_BYTES != window);
            steps.extend(others.map(|&blocks| Step::SetWindow { side, blocks }));
        }
    }

    /// Chooses the window of the next laps.
    pub(super) fn set_window(&mut self, side: usize, blocks: u32) -> bool {
        let driver = &mut self.ends[side].change().0;
        driver.set_window(Some(blocks * BLOCK_BYTES));
        assert_eq!(driver.endpoint().window(), blocks * BLOCK_BYTES, "a window of the case is possible");
        true
    }
}
