"""`powertrain images`: brings the image archives of a release into a registry or onto nodes."""
