//! The machines of the cost model as machines of the simulator.

use superpipe_core::plan::{self, Machine, PageSize, Pages};

use crate::nic::{CopyStep, Paging, Profile};

/// Returns a machine on which the data set of all copies has `data_bytes` bytes, and all memory of applications is in such pages: that of a copy, whose other
/// buffer is a landing buffer, and that which is registered.
pub(crate) fn simulated(machine: &Machine, data_bytes: u64, pages: Pages) -> Profile {
    let plan::Profile {
        latency_ns,
        net_bytes_per_ns,
        gap_ns,
        overhead_ns,
        copy,
        contention,
        registration,
        ..
    } = machine.profile;
    let step = |step: plan::CopyStep| CopyStep {
        data_bytes_max: step.data_bytes_max,
        bytes_per_us: per_us(step.bytes_per_ns),
    };
    Profile {
        copy: copy.map(step),
        data_bytes: Some(data_bytes),
        contention_percent: whole(contention * 100.0),
        post_ns: whole(overhead_ns),
        doorbell_ns: 0,
        poll_cq_ns: 10,
        // It is part of the latency.
        fetch_ns: 0,
        latency_ns: whole(latency_ns),
        gap_ns: whole(gap_ns),
        wire_bytes_per_us: per_us(net_bytes_per_ns),
        mtu_bytes: MTU_BYTES,
        register_ns: whole(registration.latency_ns),
        register_bytes_per_us: per_us(registration.bytes_per_ns),
        deregister_ns: whole(registration.deregistration.latency_ns),
        page_fault_ns: whole(registration.fault_ns),
        paging: paging(&registration, pages),
        ..Profile::roce_100g()
    }
}

fn paging(registration: &plan::Registration, pages: Pages) -> Paging {
    let plan::Registration { faults_at_once, huge_factor, device_share, deregistration, .. } = *registration;
    Paging {
        are_resident: [pages.are_resident; 2],
        cold_buffers: u64::from(!pages.are_resident),
        huge_percent: if pages.size == PageSize::Huge { whole(huge_factor * 100.0) } else { 100 },
        faults_at_once: faults_at_once as usize,
        device_percent: whole(device_share * 100.0),
        deregister_short_bytes: deregistration.short_bytes_max,
        deregister_bytes_per_us: per_us(deregistration.bytes_per_ns),
        ..Paging::PLAIN
    }
}

/// Payload of a packet of InfiniBand.
const MTU_BYTES: u32 = 2048;

fn per_us(bytes_per_ns: f64) -> u64 {
    whole(bytes_per_ns * 1000.0)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, and above 0")]
fn whole(value: f64) -> u64 {
    value.round() as u64
}
