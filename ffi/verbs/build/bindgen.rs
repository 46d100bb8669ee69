//! Makes the bindings to rdma-core from this host's headers: the feature `bindgen`.
//!
//! Three runs over the same headers, written one after the other: the types and libibverbs; librdmacm; and the functions
//! of libibverbs that are newer than those that are required. Each library becomes a struct of function pointers that is filled when
//! the library is loaded; nothing is linked. Types that libc has as well are libc's, since they alone differ between
//! architectures; sizes and offsets are asserted on the one that the headers are of.

use bindgen::callbacks::{DeriveTrait, ImplementsTrait, ParseCallbacks};
use bindgen::{Builder, EnumVariation, Formatter};
use std::env::consts::ARCH;

const HEADERS: &str = "#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n";

const IBVERBS: &str = "ibv_(get_device_list|free_device_list|get_device_name|open_device|close_device|query_device\
    |query_port|query_gid|alloc_pd|dealloc_pd|reg_mr|dereg_mr|create_comp_channel|destroy_comp_channel|create_cq\
    |destroy_cq|get_cq_event|ack_cq_events|create_qp|destroy_qp|modify_qp)";

const IBVERBS_TYPES: &str = "ibv_(wc|wc_flags|send_wr|send_flags|recv_wr|access_flags|qp_attr_mask|port_attr|port_state\
    |gid_entry|gid_type|sa_path_rec)";

const IBVERBS_RECENT: &str = "ibv_query_qp_data_in_order|_ibv_query_gid_ex";

const RDMACM: &str = "rdma_(create_event_channel|destroy_event_channel|get_cm_event|ack_cm_event|get_devices|free_devices|create_id|destroy_id\
    |migrate_id|bind_addr|resolve_addr|resolve_route|listen|connect|establish|accept|reject|disconnect|init_qp_attr\
    |set_option)";

/// Beginning of an assertion that bindgen writes for a type.
const ASSERTION: &str = "const _: () = {";

const FLAGS: &str = "ibv_(access_flags|qp_attr_mask|send_flags|wc_flags)";

const OF_LIBC: &str = "_*(pthread|atomic)_.*|sockaddr.*|in6?_addr|in6?_addr_t|in_port_t|sa_family_t";

const OF_THE_FIRST_RUN: &str = "(_|_compat_)?ibv_.*|__(u|be)(8|16|32|64)";

/// Returns the text of the bindings, or the cause that this host cannot make it.
pub(crate) fn bindings() -> Result<String, String> {
    clang_sys::load().map_err(|error| format!("no libclang ({error}); on Debian: libclang-dev"))?;
    let runs = [
        builder().dynamic_library_name("Ibverbs").allowlist_function(IBVERBS).allowlist_type(IBVERBS_TYPES),
        builder()
            .dynamic_library_name("Rdmacm")
            .allowlist_function(RDMACM)
            .allowlist_var("RDMA_OPTION_ID.*")
            .blocklist_type(OF_THE_FIRST_RUN),
        builder()
            .dynamic_library_name("IbverbsRecent")
            .allowlist_function(IBVERBS_RECENT)
            .allowlist_recursively(false)
            .dynamic_link_require_all(false),
    ];
    runs.into_iter()
        .map(|run| run.generate().map(|bindings| bindings.to_string()))
        .collect::<Result<Vec<_>, _>>()
        .map(|texts| {
            texts.join("\n").replace(ASSERTION, &format!("#[cfg(target_arch = \"{ARCH}\")]\n{ASSERTION}"))
        })
        .map_err(|error| {
            format!("no headers of rdma-core ({error}); on Debian: libibverbs-dev librdmacm-dev")
        })
}

fn builder() -> Builder {
    Builder::default()
        .header_contents("rdma.h", HEADERS)
        .use_core()
        .wrap_unsafe_ops(true)
        .disable_header_comment()
        .generate_comments(false)
        .default_enum_style(EnumVariation::NewType { is_bitfield: false, is_global: false })
        .bitfield_enum(FLAGS)
        .constified_enum("RDMA_OPTION_.*")
        .derive_default(true)
        .blocklist_type(OF_LIBC)
        .parse_callbacks(Box::new(Libc))
        .dynamic_link_require_all(true)
        .formatter(Formatter::Prettyplease)
}

/// Traits of libc's types.
#[derive(Debug)]
struct Libc;

impl ParseCallbacks for Libc {
    fn blocklisted_type_implements_trait(&self, _: &str, wanted: DeriveTrait) -> Option<ImplementsTrait> {
        matches!(wanted, DeriveTrait::Copy).then_some(ImplementsTrait::Yes)
    }
}
