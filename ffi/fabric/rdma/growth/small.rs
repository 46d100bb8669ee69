//! The small buffer of the provision protocol: a region of its own, and the image of the peer's another. They are registered while
//! connecting, and released by jobs once they were left. wire.md 4.7, 10.2.

use super::steps::Region;
use super::{Growth, IMAGES, Image, Place, SMALL, Terms, offset_of, span_of};
use crate::budget::{BudgetShare, Charge};
use crate::fabric::Span;
use crate::fabric::rdma::error::ConnectError;
use crate::os::OsError;
use crate::os::page::round_to_pages;
use superpipe_core::driver::setup::RemoteRegion;
use superpipe_core::{Landing, Layout};
use superpipe_verbs::{Access, Memory, Mr, RemoteAddr};

/// Returns the bytes that are registered for small buffers of this layout: for this end's, and as many for the image of the peer's.
pub(in crate::fabric::rdma) fn registered_bytes(small: Option<Layout>) -> [usize; 2] {
    let bytes = small.map_or(0, |small| small.bytes() as usize);
    [if bytes == 0 { 0 } else { round_to_pages(bytes).unwrap_or(bytes) }; 2]
}

impl Growth {
    /// Registers the small buffer and the image of the peer's. `parts` are the parts of the connection's share of the budget for both.
    ///
    /// # Errors
    /// The memory cannot be had, or the device refuses it. Nothing is left.
    pub(in crate::fabric::rdma) fn register_small(
        &mut self,
        layout: Layout,
        parts: [BudgetShare; 2],
    ) -> Result<(), ConnectError> {
        let terms = Terms { bytes: layout.bytes(), remote: None };
        let places = [(SMALL, Access::RemoteWrite), (IMAGES + SMALL, Access::Local)];
        for ((place, access), part_of_share) in places.into_iter().zip(parts) {
            let no_room = || OsError::new(libc::ENOMEM, "cannot map a small buffer");
            let part = self.reserve.part(place, terms.bytes as usize).ok_or_else(no_room)?;
            part.advise();
            part.populate(0..part.len())?;
            let mr = Mr::register(&self.pd, part, access)?;
            self.places[place] =
                Place::Live { region: Region::new(mr, Charge::of_part(part_of_share)), terms };
        }
        Ok(())
    }

    /// Returns the region of the small buffer, for the peer.
    pub(in crate::fabric::rdma) fn small_region(&self) -> Option<RemoteRegion> {
        let Place::Live { region, .. } = &self.places[SMALL] else { return None };
        Some(RemoteRegion { addr: region.mr.remote_addr(), rkey: region.mr.rkey().0 })
    }

    /// Notes where the peer's small buffer is.
    pub(in crate::fabric::rdma) const fn adopt_small(&mut self, remote: RemoteAddr) {
        if let Place::Live { terms, .. } = &mut self.places[IMAGES + SMALL] {
            terms.remote = Some(remote);
        }
    }

    /// Returns the small buffer and the image of the peer's, if they are there.
    pub(in crate::fabric::rdma) fn small(&self, layout: Layout) -> Option<(Landing<Span>, Landing<Image>)> {
        let [Place::Live { region, .. }, Place::Live { region: image, .. }] =
            [SMALL, IMAGES + SMALL].map(|place| &self.places[place])
        else {
            return None;
        };
        let image = Image { span: span_of(image, layout.bytes()), base: offset_of(SMALL) };
        Some((Landing { memory: span_of(region, layout.bytes()), layout }, Landing { memory: image, layout }))
    }

    /// Returns the bytes of the budget for both.
    pub(in crate::fabric::rdma) fn small_bytes(&self) -> u64 {
        let bytes = |place: usize| match &self.places[place] {
            Place::Live { region, .. } => region.charge_bytes(),
            _ => 0,
        };
        bytes(SMALL) + bytes(IMAGES + SMALL)
    }
}
