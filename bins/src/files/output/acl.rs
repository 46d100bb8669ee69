//! POSIX access lists as the kernel stores them in an extended attribute: a version, then entries of 8 bytes, each with a tag,
//! permissions and a user or group id.

/// Extended attribute that holds a file's list.
pub(super) const ATTRIBUTE: &str = "system.posix_acl_access";

/// All permissions of one class (owner, group or others).
const ALL: u32 = 0o7;
const VERSION: [u8; 4] = 2_u32.to_le_bytes();
const ENTRY_BYTES: usize = 8;
/// the owner
const USER_OBJ: u16 = 0x01;
/// a user by number
const USER: u16 = 0x02;
/// the file's group
const GROUP_OBJ: u16 = 0x04;
/// a group by number
const GROUP: u16 = 0x08;
/// limit for all entries except those of the owner and others
const MASK: u16 = 0x10;

/// An access list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Acl(Vec<u8>);

impl Acl {
    /// A list that cannot be read, and is treated as if it denied everything to all but the owner.
    pub(super) const UNREADABLE: Self = Self(Vec::new());

    pub(super) const fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub(super) const fn is_readable(&self) -> bool {
        !self.0.is_empty()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the list with all permissions except the owner's limited to `most`.
    pub(super) fn limited(&self, most: u32) -> Self {
        let mut bytes = self.0.clone();
        let (_, entries) = bytes.split_at_mut(VERSION.len().min(self.0.len()));
        for entry in entries.chunks_exact_mut(ENTRY_BYTES) {
            if u16::from_le_bytes([entry[0], entry[1]]) != USER_OBJ {
                entry[2] &= most.to_le_bytes()[0];
            }
        }
        Self(bytes)
    }

    /// Returns permissions of the group and others for a file without a list, so that nobody can do what this list denies. Two
    /// differences matter: with a list, the mode does not show the group's own entry; without it, the users and groups that it
    /// names belong to the group or to others.
    pub(super) fn without(&self, group: u32, other: u32) -> (u32, u32) {
        let Some(entries) = self.0.strip_prefix(&VERSION) else { return (0, 0) };
        let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() {
            return (0, 0);
        }
        let (mut of_group, mut mask, mut of_named) = (ALL, ALL, None);
        for entry in entries {
            let permits = u32::from(u16::from_le_bytes([entry[2], entry[3]]));
            match u16::from_le_bytes([entry[0], entry[1]]) {
                USER | GROUP => of_named = Some(of_named.unwrap_or(ALL) & permits),
                GROUP_OBJ => of_group = permits,
                MASK => mask = permits,
                _ => {}
            }
        }
        let least = of_named.map_or(ALL, |permits| permits & mask);
        (group & of_group & mask & least, other & least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16)]) -> Acl {
        let mut bytes = VERSION.to_vec();
        for (tag, permits) in entries {
            bytes.extend([tag.to_le_bytes(), permits.to_le_bytes(), [0, 0], [0, 0]].concat());
        }
        Acl::new(bytes)
    }

    #[test]
    fn a_mode_without_the_list_permits_no_more_than_the_list() {
        let plain = list(&[(USER_OBJ, 6), (GROUP_OBJ, 4), (0x20, 4)]);
        assert_eq!(plain.without(4, 4), (4, 4));
        // the mode of such a file shows the mask as the group's permissions: rw
        let named = list(&[(USER_OBJ, 6), (USER, 6), (GROUP_OBJ, 0), (MASK, 6), (0x20, 0)]);
        assert_eq!(named.without(6, 0), (0, 0));
        let denied = list(&[(USER_OBJ, 6), (USER, 0), (GROUP_OBJ, 4), (MASK, 4), (0x20, 4)]);
        assert_eq!(denied.without(4, 4), (0, 0));
        let masked = list(&[(USER_OBJ, 6), (GROUP, 6), (GROUP_OBJ, 6), (MASK, 4), (0x20, 6)]);
        assert_eq!(masked.without(6, 6), (4, 4));
        for odd in [&b""[..], b"\x02\0\0", b"\x03\0\0\0", b"\x02\0\0\0x"] {
            assert_eq!(Acl::new(odd.to_vec()).without(6, 6), (0, 0));
        }
    }

    #[test]
    fn a_limit_applies_to_all_but_the_owner() {
        let limited = list(&[(USER_OBJ, 4), (USER, 6), (GROUP_OBJ, 7)]).limited(4);
        assert_eq!(limited, list(&[(USER_OBJ, 4), (USER, 4), (GROUP_OBJ, 4)]));
        assert_eq!(Acl::new(vec![2, 0]).limited(4).bytes(), [2, 0]);
    }
}
