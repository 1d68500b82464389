"""What is built or downloaded once into the cache: programs, Debian packages, images."""
