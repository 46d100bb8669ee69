//! Steps of memory that an end exposes, and what must hold of it.

use superpipe_core::driver::SendOperation;
use superpipe_core::{Buffer, Exposed, ExposedState, SendMemory};

use super::State;
use super::flow::payload;
use crate::explore::cases::{Case, SendMethod};
use crate::explore::step::Step;

/// Bytes of a buffer.
pub(super) const BUFFER_BYTES: usize = 256;

/// Memory that an end has exposed. Each time it is another buffer.
#[derive(Clone, Debug, Hash)]
pub(super) struct Exposures {
    handles: Vec<(Exposed, Buffer)>,
    /// The newest is exposed.
    is_current: bool,
    exposes_left: u32,
    withdraws_left: u32,
}

impl Exposures {
    pub(super) fn new(case: &Case, side: usize) -> Self {
        let [exposes_left, withdraws_left] =
            case.exposing.map_or([0; 2], |it| [it.exposes_max[side], it.withdraws_max[side]]);
        Self { handles: Vec::new(), is_current: false, exposes_left, withdraws_left }
    }
}

impl<const DIRECT: bool> State<DIRECT> {
    /// Adds the steps of exposed memory to try.
    pub(super) fn exposing_steps(&self, side: usize, steps: &mut Vec<Step>) {
        let Exposures { handles, is_current, exposes_left, withdraws_left } = &*self.exposures[side];
        if self.ends[side].0.endpoint().closed().is_some() {
            return;
        }
        if !is_current && *exposes_left > 0 {
            steps.push(Step::Expose(side));
        }
        if *is_current && *withdraws_left > 0 {
            steps.push(Step::Withdraw(side));
        }
        let flow = &self.flows[side];
        let next = self.case.transfers[side].get(flow.next).filter(|_| flow.open.is_none());
        let is_exposed = next.is_some_and(|transfer| {
            matches!(transfer.send_method, SendMethod::Exposed | SendMethod::ExposedInParts)
        });
        if is_exposed && handles.len() > usize::from(*is_current) {
            steps.push(Step::SendStale(side));
        }
    }

    pub(super) fn expose(&mut self, side: usize) -> bool {
        let buffer = self.fabric.exposed.change().add(side, vec![0; BUFFER_BYTES]);
        let exposed = self.ends[side].change().0.endpoint_mut().expose(&mut self.fabric, buffer);
        let exposures = self.exposures[side].change();
        exposures.exposes_left -= 1;
        exposures.is_current = exposed.is_some();
        exposures.handles.extend(exposed.map(|exposed| (exposed, buffer)));
        true
    }

    pub(super) fn withdraw(&mut self, side: usize) -> bool {
        let exposures = self.exposures[side].change();
        exposures.withdraws_left -= 1;
        exposures.is_current = false;
        if let Some((exposed, _)) = exposures.handles.last().copied() {
            self.ends[side].change().0.endpoint_mut().withdraw_exposed(&mut self.fabric, exposed);
        }
        true
    }

    /// Begins a message out of the newest memory, or of the one before that was withdrawn. Returns `None` if that is shared.
    pub(super) fn exposed_message(
        &mut self,
        side: usize,
        index: usize,
        is_stale: bool,
    ) -> Option<SendOperation> {
        let bytes = self.case.transfers[side][index].bytes;
        let op = SendOperation::new(index as u64, bytes);
        let Exposures { handles, is_current, .. } = &*self.exposures[side];
        let withdrawn = handles.len() - usize::from(*is_current);
        let found = if is_stale { handles[..withdrawn].last() } else { handles[withdrawn..].last() };
        let Some((exposed, buffer)) = found.copied() else { return Some(op) };
        let endpoint = self.ends[side].change().0.endpoint_mut();
        endpoint.poll_acknowledgements(&mut self.fabric);
        if endpoint.is_shared(exposed) {
            return None;
        }
        self.fabric.exposed.change().write(buffer, 0, &payload(side, index, bytes));
        Some(op.with_memory(SendMemory::Exposed(exposed, 0)))
    }

    /// Checks that memory is mapped while it is exposed only, where nothing is under way.
    pub(super) fn check_exposed(&self) {
        let ends = self.ends.each_ref().map(|end| end.0.endpoint());
        let is_open = ends.iter().all(|end| end.closed().is_none() && !end.peer_closes());
        let is_steady = ends.iter().all(|end| end.is_exposing_steady()) && self.fabric.is_quiescent();
        if self.case.exposing.is_some() && is_open && is_steady {
            for (side, end) in ends.into_iter().enumerate() {
                let is_ready =
                    |(exposed, _): &&(Exposed, Buffer)| end.exposed_state(*exposed) == ExposedState::Ready;
                let ready = self.exposures[side].handles.iter().chain(&self.offerings[side].handles);
                let ready = ready.filter(is_ready).count();
                assert_eq!(self.fabric.exposed.mapped(1 - side), ready, "memories that are mapped");
            }
        }
    }
}
