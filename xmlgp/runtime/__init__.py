"""What any program needs: parallel work, interrupts, atomic files, progress, untrusted text made fit to show."""
