"""Archives of tests that are the same in every run."""

import io
import lzma
import tarfile


def write(target, files):
    """Writes pairs of a path and bytes as a compressed archive."""
    # Tests of a definition have the data of the test before them: the window of the compressor holds both.
    with lzma.open(target, "wb", preset=9 | lzma.PRESET_EXTREME) as compressed:
        with tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for path, data in files:
                entry = tarfile.TarInfo(path)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
