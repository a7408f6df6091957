//! Decompresses kernels. With emulated instructions, an uncompressed kernel boots several seconds
//! faster.

use crate::VmError;
use std::io::Read;

/// Extracts the ELF kernel from an x86 boot image (Documentation/arch/x86/boot.rst: `setup_sects`
/// at 0x1f1, "HdrS" at 0x202, `payload_offset` and `payload_length` at 0x248, since protocol 2.08).
///
/// # Errors
/// Returns an error if the image is malformed or uses a compression other than xz and zstd.
pub(crate) fn of_boot_image(image: &[u8]) -> Result<Vec<u8>, VmError> {
    let unfit = |why: &str| VmError::Unfit(format!("the kernel's boot image cannot be unpacked: {why}"));
    let u32_at = |at: usize| {
        let bytes: Option<[u8; 4]> = image.get(at..at + 4).and_then(|b| b.try_into().ok());
        bytes.map(|b| u32::from_le_bytes(b) as usize).ok_or_else(|| unfit("it is too short"))
    };
    if image.get(0x202..0x206) != Some(b"HdrS") {
        return Err(unfit("it has no x86 boot header"));
    }
    // For very old kernels, 0 means 4.
    let setup_sectors = if image[0x1f1] == 0 { 4 } else { usize::from(image[0x1f1]) };
    let start = (setup_sectors + 1) * 512 + u32_at(0x248)?;
    let length = u32_at(0x24c)?;
    let payload = image.get(start..start + length).ok_or_else(|| unfit("its payload lies outside of it"))?;
    let mut kernel = Vec::new();
    // The payload is followed by its uncompressed size, which the decoders below do not expect.
    let unpacked = match payload {
        [0xfd, b'7', b'z', b'X', b'Z', ..] => {
            lzma_rust2::XzReader::new(payload, false).read_to_end(&mut kernel)
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            zstd::stream::read::Decoder::new(payload).and_then(|d| d.single_frame().read_to_end(&mut kernel))
        }
        _ => return Err(unfit("its compression is neither xz nor zstd")),
    };
    unpacked.map_err(|e| unfit(&e.to_string()))?;
    if !kernel.starts_with(b"\x7fELF") {
        return Err(unfit("the decompressed payload is not an ELF file"));
    }
    Ok(kernel)
}

/// Decompresses xz data.
pub(crate) fn unxz(packed: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    lzma_rust2::XzReader::new(packed, false).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Builds a boot image that contains a payload.
    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 512 * 3 + 16];
        image[0x1f1] = 2;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248..0x24c].copy_from_slice(&16u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend(payload);
        image
    }

    #[test]
    fn a_zstd_payload_with_its_size_behind_is_unpacked() {
        let kernel = [b"\x7fELF".as_slice(), &[7; 1000]].concat();
        let mut payload = zstd::encode_all(kernel.as_slice(), 3).unwrap();
        payload.extend(1004u32.to_le_bytes());
        assert_eq!(of_boot_image(&image(&payload)).unwrap(), kernel);
    }

    #[test]
    fn files_that_are_no_kernel_are_refused() {
        let refused = |image: &[u8]| of_boot_image(image).unwrap_err().to_string();
        assert!(refused(b"MZ").contains("boot header"));
        assert!(refused(&image(b"gzip?")).contains("neither xz nor zstd"));
        let other = zstd::encode_all(b"text".as_slice(), 3).unwrap();
        assert!(refused(&image(&other)).contains("not an ELF file"));
        let mut cut = image(&other);
        cut.truncate(cut.len() - 1);
        assert!(refused(&cut).contains("outside"));
    }
}
