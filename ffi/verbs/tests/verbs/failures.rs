//! Failures over a device, and their texts.

use crate::addresses;
use crate::end::{BYTES, CONFIG, Listening, active, pair, params, resolved};
use core::net::SocketAddr;
use std::env;
use std::process::Command;
use std::thread;
use superpipe_verbs::{
    Access, CmEventKind, CmId, CompChannel, Context, Cq, DestinationMr, Error, EventChannel, Mr, Pages, Pd,
    Qp, RemoteAddr, Rkey, SendFlags, SourceMr, Transport, WcStatus,
};

#[test]
fn nobody_listening_is_reported() {
    for ip in addresses() {
        let place = Listening::new(ip);
        let address = place.address;
        drop(place);
        let error = active(address).err().unwrap().to_string();
        assert!(error.contains("start the receiver first"), "{error}");
    }
}

#[test]
fn a_refusal_brings_its_words() {
    for ip in addresses() {
        let place = Listening::new(ip);
        let address = place.address;
        thread::scope(|scope| {
            let active = scope.spawn(move || active(address));
            let event = place.request();
            event.request.unwrap().reject(b"no").unwrap();
            let Err(Error::Connection(failure)) = active.join().unwrap() else { panic!("it was refused") };
            assert_eq!(failure.kind, CmEventKind::REJECTED);
            assert!(!failure.is_nobody_listening(), "{failure:?}");
            assert!(failure.to_string().starts_with("the peer refused the connection"), "{failure}");
        });
    }
}

#[test]
fn an_address_of_another_host_is_refused() {
    if addresses().is_empty() {
        return;
    }
    let channel = EventChannel::create().unwrap();
    let mut id = CmId::create(&channel).unwrap();
    let error = id.bind("203.0.113.9:0".parse::<SocketAddr>().unwrap()).unwrap_err().to_string();
    let told = "cannot bind to 203.0.113.9:0 (rdma_bind_addr): cannot assign requested address; the address must be one of this host's";
    assert_eq!(error, told);
}

#[test]
fn too_much_private_data_is_refused_before_sending() {
    for ip in addresses() {
        let place = Listening::new(ip);
        let (_channel, mut id) = resolved(place.address).unwrap();
        let error = id.connect(params(1, &[0; 57])).unwrap_err();
        assert_eq!(error, Error::PrivateData { bytes: 57, max: 56 });
        assert_eq!(error.to_string(), "57 bytes of private data are more than the 56 that fit");
    }
}

#[test]
fn a_wrong_key_fails_by_name_if_the_device_checks() {
    for ip in addresses() {
        let (mut active, passive) = pair(ip);
        let mut there = active.there(0);
        there.rkey = Rkey(there.rkey.0 ^ 0x5500);
        let mut batch = active.qp.batch();
        batch.write(1, active.mr.sge(0, 64).unwrap(), there, SendFlags::SIGNALED).unwrap();
        batch.post().unwrap();
        let ended = active.completions(1);
        if active.id.context().unwrap().transport() == Transport::Iwarp {
            continue; // siw says success, and fails later
        }
        let text = ended[0].status().to_string();
        assert_eq!(
            text,
            "remote access error: the peer's memory is not registered for this (IBV_WC_REM_ACCESS_ERR)"
        );
        drop(passive);
    }
}

#[test]
fn a_write_to_memory_that_was_given_back_fails() {
    for ip in addresses() {
        let (mut active, passive) = pair(ip);
        let mut place = [1; 64];
        let there = DestinationMr::scope(&passive.pd, &mut place, |mr| RemoteAddr {
            addr: mr.remote_addr(),
            rkey: mr.rkey(),
        });
        let mut batch = active.qp.batch();
        batch.write(1, active.mr.sge(0, 64).unwrap(), there.unwrap(), SendFlags::SIGNALED).unwrap();
        batch.post().unwrap();
        let ended = active.completions(1);
        if active.id.context().unwrap().transport() != Transport::Iwarp {
            // siw says success, and fails later.
            assert_eq!(ended[0].status().name(), Some("REM_ACCESS_ERR"));
        }
        drop((active, passive));
        assert_eq!(place, [1; 64]);
    }
}

#[test]
fn a_source_is_not_written_by_a_peer_that_guesses_its_key() {
    for ip in addresses() {
        let (mut active, passive) = pair(ip);
        let mr = Mr::register(&passive.pd, Pages::map(4096).unwrap(), Access::LocalRead).unwrap();
        let mut batch = active.qp.batch();
        let there = RemoteAddr { addr: mr.remote_addr(), rkey: mr.rkey() };
        batch.write(1, active.mr.sge(0, 64).unwrap(), there, SendFlags::SIGNALED).unwrap();
        batch.post().unwrap();
        let ended = active.completions(1);
        if active.id.context().unwrap().transport() != Transport::Iwarp {
            assert_eq!(ended[0].status().name(), Some("REM_ACCESS_ERR"));
        }
    }
}

/// The second SEND waits for a receive of the peer, and would be read again.
#[test]
fn a_source_goes_while_a_work_request_names_it() {
    for (ip, is_failed) in addresses().into_iter().flat_map(|ip| [(ip, true), (ip, false)]) {
        let (mut active, mut passive) = pair(ip);
        if active.id.context().unwrap().transport() == Transport::Iwarp {
            continue; // nothing waits there
        }
        let pd = active.pd.clone();
        SourceMr::scope(&pd, &[1; 64], |mr| {
            let mut batch = active.qp.batch();
            for id in 1..=2 {
                batch.send(id, mr.sge(0, 64).unwrap(), SendFlags::SIGNALED).unwrap();
            }
            batch.post().unwrap();
            let ended = active.completions(1);
            assert_eq!((ended.len(), ended[0].id(), ended[0].result()), (1, 1, Ok(())));
            if is_failed {
                active.qp.fail().unwrap();
            }
        })
        .unwrap();
        passive.qp.post_receive(1001, passive.mr.sge(0, 4096)).unwrap();
        // The QP fails, and flushes its receive.
        let mut ended = active.completions(2);
        ended.retain(|wc| wc.id() == 2);
        let name = ended[0].status().name().unwrap();
        // rxe has the second name for it.
        let names: &[_] = if is_failed { &["WR_FLUSH_ERR"] } else { &["LOC_PROT_ERR", "LOC_QP_OP_ERR"] };
        assert!(names.contains(&name), "{name}");
    }
}

#[test]
fn a_failed_queue_pair_flushes_what_is_posted() {
    for ip in addresses() {
        let (mut active, _passive) = pair(ip);
        active.qp.fail().unwrap();
        let flushed = active.completions(1);
        assert_eq!((flushed[0].id(), flushed[0].status()), (1000, WcStatus::FLUSHED));
    }
}

#[test]
fn an_unknown_gid_index_is_reported_with_the_known() {
    for ip in addresses() {
        let place = Listening::new(ip);
        let (_channel, id) = resolved(place.address).unwrap();
        let (context, port) = (id.context().unwrap(), id.port_number());
        let gids = context.gids(port).unwrap();
        assert_eq!(context.gid(port, gids[0].index), Ok(gids[0]));
        if context.transport() == Transport::InfiniBand {
            assert!(gids.iter().any(|entry| entry.gid.ip() == ip), "{gids:?}");
        }
        let error = context.gid(port, 100_000).unwrap_err().to_string();
        assert!(error.contains(&format!("has no GID at index 100000; choose of {}", gids[0])), "{error}");
    }
}

#[test]
fn what_the_device_lacks_is_reported() {
    for ip in addresses() {
        let place = Listening::new(ip);
        let (_channel, id) = resolved(place.address).unwrap();
        let context = id.context().unwrap();
        let limits = context.limits().unwrap();
        assert!(limits.ports >= 1 && limits.queue_depth_max > 16 && limits.cq_depth_max > 64, "{limits:?}");
        let error = Cq::create(&context, limits.cq_depth_max + 1, None).unwrap_err().to_string();
        assert!(error.contains("(ibv_create_cq): ") && error.contains("ask for less"), "{error}");
        let cq = Cq::create(&context, 64, None).unwrap();
        let deep = superpipe_verbs::QpConfig { send_depth: limits.queue_depth_max + 1, ..CONFIG };
        let error = Qp::create(&Pd::alloc(&context).unwrap(), &cq, &cq, deep).unwrap_err().to_string();
        assert!(error.contains("(ibv_create_qp): "), "{error}");
    }
}

/// Runs itself again, in a process that may pin 64 KiB and is root without the right to pin more.
#[test]
fn a_small_limit_of_pinned_memory_is_reported() {
    const AGAIN: &str = "SUPERPIPE_MAY_PIN_64_KIB";
    let Some(ip) = addresses().into_iter().next() else { return };
    if env::var_os(AGAIN).is_some() {
        let place = Listening::new(ip);
        let (_channel, id) = resolved(place.address).unwrap();
        let pd = Pd::alloc(&id.context().unwrap()).unwrap();
        let error = Mr::register(&pd, Pages::map(BYTES).unwrap(), Access::Local).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot register 256 KiB (ibv_reg_mr): cannot allocate memory; raise RLIMIT_MEMLOCK (now 64 KiB): ulimit -l, \
             or LimitMEMLOCK= of its service"
        );
        return;
    }
    let again = "ulimit -l 64 && exec setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock \"$@\"";
    let name = "failures::a_small_limit_of_pinned_memory_is_reported";
    let output = Command::new("bash")
        .args(["-c", again, "bash"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", name])
        .env(AGAIN, "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[test]
fn objects_of_two_devices_do_not_mix() {
    let found: Vec<_> = addresses()
        .into_iter()
        .map(|ip| resolved(Listening::new(ip).address).unwrap().1.context().unwrap())
        .collect();
    let (Some(one), Some(other)) = (found.first(), found.last()) else { return };
    assert_ne!(one.name(), other.name(), "the first address and the last are of two devices");
    let (near, far) = (Cq::create(one, 16, None).unwrap(), Cq::create(other, 16, None).unwrap());
    let error = Qp::create(&Pd::alloc(one).unwrap(), &near, &far, CONFIG).unwrap_err();
    assert_eq!(error, Error::Mismatch("a QP and its completion queue are of different devices"));
    let error = Cq::create(one, 16, Some(&CompChannel::create(other).unwrap())).unwrap_err();
    assert_eq!(error, Error::Mismatch("a CQ and its completion channel are of different devices"));
}

#[test]
fn everything_stays_until_its_last_user_is_gone() {
    for ip in addresses() {
        let place = Listening::new(ip);
        let (channel, id) = resolved(place.address).unwrap();
        let context = id.context().unwrap();
        drop((channel, id, place));
        let pd = Pd::alloc(&context).unwrap();
        let named = Context::open(&context.name()).unwrap();
        drop((context, named));
        let mr = Mr::register(&pd, Pages::map(BYTES).unwrap(), Access::Local).unwrap();
        drop(pd);
        assert!(
            mr.sge(BYTES - 1, 1).is_some() && mr.sge(BYTES, 1).is_none() && mr.sge(usize::MAX, 1).is_none()
        );
    }
}
