//! libibverbs and librdmacm, loaded on first use, once per process.

use super::sys::{Ibverbs, IbverbsRecent, Rdmacm};
use core::{error, fmt};
use libloading::Library;
use std::sync::OnceLock;

/// A library and the packages that have it.
struct Source {
    file: &'static str,
    packages: &'static str,
}

const IBVERBS: Source = Source {
    file: "libibverbs.so.1",
    packages: "libibverbs1 and ibverbs-providers on Debian and Ubuntu, libibverbs on Fedora and RHEL",
};
const RDMACM: Source = Source {
    file: "librdmacm.so.1",
    packages: "librdmacm1 on Debian and Ubuntu, librdmacm on Fedora and RHEL",
};

/// libibverbs.
pub(super) struct Verbs {
    pub(super) required: Ibverbs,
    pub(super) recent: IbverbsRecent,
}

/// Error of a library that is missing or lacks a symbol. It names both, and the package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// Text of the loader, which names the file and the symbol.
    cause: String,
    /// True if the library is there and lacks a symbol.
    is_old: bool,
    packages: &'static str,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_old { "it is too old: install a newer" } else { "install" };
        write!(f, "{}; {what} {}", self.cause, self.packages)
    }
}

impl error::Error for LoadError {}

/// libibverbs.
pub(super) fn verbs() -> Result<&'static Verbs, LoadError> {
    static LOADED: OnceLock<Verbs> = OnceLock::new();
    once(&LOADED, load_verbs)
}

/// librdmacm.
pub(super) fn rdmacm() -> Result<&'static Rdmacm, LoadError> {
    static LOADED: OnceLock<Rdmacm> = OnceLock::new();
    let load = || {
        let library = open(&RDMACM)?;
        // SAFETY: the symbols of librdmacm.so.1 have the types of the headers that the bindings were made from.
        unsafe { Rdmacm::from_library(library) }.map_err(|error| lacking(&RDMACM, &error))
    };
    once(&LOADED, load)
}

/// Loads a library once. After a failure, which may be for lack of a descriptor, the next call tries again.
fn once<T>(
    loaded: &'static OnceLock<T>,
    load: impl FnOnce() -> Result<T, LoadError>,
) -> Result<&'static T, LoadError> {
    match loaded.get() {
        Some(library) => Ok(library),
        None => load().map(|library| loaded.get_or_init(|| library)),
    }
}

fn load_verbs() -> Result<Verbs, LoadError> {
    let (library, again) = (open(&IBVERBS)?, open(&IBVERBS)?);
    // SAFETY: the symbols of libibverbs.so.1 have the types of the headers that the bindings were made from.
    let required = unsafe { Ibverbs::from_library(library) }.map_err(|error| lacking(&IBVERBS, &error))?;
    // SAFETY: symbols of libibverbs.so.1 that exist have the types of the headers that the bindings were made from.
    let recent = unsafe { IbverbsRecent::from_library(again) }.map_err(|error| lacking(&IBVERBS, &error))?;
    Ok(Verbs { required, recent })
}

fn open(source: &Source) -> Result<Library, LoadError> {
    // SAFETY: what these libraries run when they are loaded needs nothing of the program.
    unsafe { Library::new(source.file) }.map_err(|error| LoadError {
        cause: words(&error),
        is_old: false,
        packages: source.packages,
    })
}

fn lacking(source: &Source, error: &libloading::Error) -> LoadError {
    LoadError { cause: words(error), is_old: true, packages: source.packages }
}

/// Returns the text of the dynamic loader, if it has one.
fn words(error: &libloading::Error) -> String {
    error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_its_package() {
        let source = Source { file: "libsuperpipe-absent.so.9", packages: "absent9 on Debian" };
        assert_eq!(
            open(&source).unwrap_err().to_string(),
            "libsuperpipe-absent.so.9: cannot open shared object file: No such file or directory; install absent9 on \
             Debian"
        );
    }

    #[test]
    fn a_missing_symbol_is_named_with_its_package() {
        // The C library is always there, and is neither.
        let libc = || open(&Source { file: "libc.so.6", packages: "" }).unwrap();
        // SAFETY: libc.so.6 has no symbol of these names, so none gets a wrong type.
        let error =
            unsafe { Ibverbs::from_library(libc()) }.err().map(|error| lacking(&IBVERBS, &error)).unwrap();
        let text = error.to_string();
        let cause =
            "libc.so.6: undefined symbol: ibv_get_device_list; it is too old: install a newer libibverbs1";
        assert!(text.contains(cause), "{text}");
        // SAFETY: libc.so.6 has no symbol of these names, so none gets a wrong type.
        let error =
            unsafe { Rdmacm::from_library(libc()) }.err().map(|error| lacking(&RDMACM, &error)).unwrap();
        let text = error.to_string();
        assert!(text.contains("undefined symbol: rdma_") && text.contains("newer librdmacm1"), "{text}");
    }

    #[test]
    fn a_library_that_could_not_be_loaded_is_tried_again() {
        static LOADED: OnceLock<u8> = OnceLock::new();
        let missing = || open(&Source { file: "libsuperpipe-absent.so.9", packages: "" }).map(|_| 0);
        assert!(once(&LOADED, missing).is_err());
        assert_eq!((once(&LOADED, || Ok(1)), once(&LOADED, || Ok(2))), (Ok(&1), Ok(&1)));
    }

    #[test]
    fn recent_symbols_may_be_missing() {
        let libc = open(&Source { file: "libc.so.6", packages: "" }).unwrap();
        // SAFETY: nothing of these types is there to be found.
        let recent = unsafe { IbverbsRecent::from_library(libc) }.unwrap();
        assert!(recent.ibv_query_qp_data_in_order.is_err() && recent._ibv_query_gid_ex.is_err());
    }

    #[test]
    fn both_are_there_or_their_packages_are_named() {
        let told = |error: LoadError, package| assert!(error.to_string().contains(package), "{error}");
        verbs().err().into_iter().for_each(|error| told(error, "install libibverbs1 and ibverbs-providers"));
        rdmacm().err().into_iter().for_each(|error| told(error, "install librdmacm1"));
    }
}
